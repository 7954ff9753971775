"""The metrics of the DynamicResources plugin, where release and gates have them.

Source: k8s.io/kubernetes/pkg/scheduler/metrics/metrics.go, 1.35 … 1.37.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kubeskew.scheduler.allocator.binding_conditions import conditional
from kubeskew.scheduler.allocator.claims import allocation
from kubeskew.scheduler.features.scheduler import SchedulerFeatures

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SHARED = "dynamic_resource_allocation_"
_OF_PODS = {"admin_access": "false", "owner_api_group": "", "owner_api_kind": "Pod"}


class SemanticCounts(Protocol):
    """The numbers that the metrics of semantic parameters show."""

    def classes(self) -> int: ...
    def types(self, *, resolved: bool) -> int: ...
    def allocated(self) -> int: ...


class DynamicMetrics:
    """The metrics of DynamicResources; those that the release does not have are not counted."""

    def __init__(self, registry: "CollectorRegistry", features: SchedulerFeatures) -> None:
        self._creates: Counter | None = None
        self._more: Mapping[str, str] = {}
        self._waits: tuple[Counter, Histogram] | None = None
        if features.claim_metric:
            self._count_claims(registry, features.claim_metric)
        if features.binding_metrics:
            self._time_binding(registry)
        self._semantic: tuple[Gauge, Gauge, Gauge] | None = None
        if features.classic is not None and features.classic.semantic:
            self._count_semantic(registry)

    def _count_claims(self, registry: "CollectorRegistry", name: str) -> None:
        from prometheus_client import Counter

        self._more = _OF_PODS if name.startswith(_SHARED) else {}
        help_text = "ResourceClaims that the scheduler asked the API server to create."
        self._creates = Counter(name, help_text, ["status", *self._more], registry=registry)

    def _time_binding(self, registry: "CollectorRegistry") -> None:
        from prometheus_client import Counter, Histogram

        labels = ["profile", "driver", "status"]
        self._waits = (
            Counter(
                "scheduler_dra_bindingconditions_allocations",
                "Allocations of devices with binding conditions, per driver and attempt.",
                labels,
                registry=registry,
            ),
            Histogram(
                "scheduler_dra_bindingconditions_wait_duration_seconds",
                "Seconds that PreBind waited for binding conditions.",
                labels,
                buckets=[0.1 * 2**step for step in range(14)],
                registry=registry,
            ),
        )

    def _count_semantic(self, registry: "CollectorRegistry") -> None:
        """Makes the metrics of KEP-4381's draft, which left their names open."""
        from prometheus_client import Gauge

        prefix = "scheduler_dynamic_resource_"
        self._semantic = (
            Gauge(f"{prefix}semantic_classes", "Classes with semantic parameters.", registry=registry),
            Gauge(
                f"{prefix}parameter_types",
                "Types of claim parameters that classes name, by whether a resource is known for them.",
                ["resolved"],
                registry=registry,
            ),
            Gauge(
                f"{prefix}semantic_claims_allocated",
                "Claims that are allocated with semantic parameters.",
                registry=registry,
            ),
        )

    def watch_semantic(self, counts: "SemanticCounts") -> None:
        """Has the numbers of semantic parameters read when the metrics are."""
        if self._semantic is None:
            return
        classes, types, allocated = self._semantic
        classes.set_function(counts.classes)
        allocated.set_function(counts.allocated)
        for resolved in (True, False):
            label = types.labels(resolved=str(resolved).lower())
            label.set_function(partial(counts.types, resolved=resolved))

    def claim_created(self, status: str) -> None:
        """Counts a created claim; `status` is `success` or `failure`."""
        if self._creates is not None:
            self._creates.labels(status=status, **self._more).inc()

    def waited(self, claims: Iterable[Mapping[str, Any]], profile: str, status: str, seconds: float) -> None:
        """Records PreBind's wait for the devices of these claims: success, failure, timeout or error."""
        if self._waits is None:
            return
        allocations, duration = self._waits
        for claim in claims:
            for result in ((allocation(claim) or {}).get("devices") or {}).get("results") or ():
                duration.labels(profile, result["driver"], status).observe(seconds)
            for result in conditional(claim):
                allocations.labels(profile, result["driver"], status).inc()

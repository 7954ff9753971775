"""The scheduler's metrics, with upstream's names, and those of the DynamicResources plugin where release and
gates have them.

Source: k8s.io/kubernetes/pkg/scheduler/metrics/metrics.go, 1.35 … 1.37.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kubeskew.apimachinery.metrics.series import Counters, Histograms
from kubeskew.scheduler.allocator.binding_conditions import conditional
from kubeskew.scheduler.allocator.claims import allocation
from kubeskew.scheduler.features import SchedulerFeatures
from kubeskew.scheduler.framework.status import Status

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Histogram

_SHARED = "dynamic_resource_allocation_"
_OF_PODS = {"admin_access": "false", "owner_api_group": "", "owner_api_kind": "Pod"}
_SECONDS = [0.001 * 2**step for step in range(15)]
_EXTENSION_SECONDS = [0.0001 * 2**step for step in range(12)]
_PLUGIN_SECONDS = [0.00001 * 1.5**step for step in range(20)]
_SLI_SECONDS = [0.01 * 2**step for step in range(20)]


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
        self.registry = registry

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


class Metrics:
    """All metrics of one scheduler, in its own registry."""

    def __init__(self, registry: "CollectorRegistry", features: SchedulerFeatures) -> None:
        self._count_attempts(registry, features)
        self.dynamic = DynamicMetrics(registry, features)
        self._time_plugins(registry)
        self._count_preemption(registry, features)
        self._time_attempts(registry)
        self._size_up(registry, features)

    def _count_attempts(self, registry: "CollectorRegistry", features: SchedulerFeatures) -> None:
        from prometheus_client import Counter, Histogram

        self.attempts = Counters(
            "scheduler_schedule_attempts",
            "Attempts at pods, by how they ended.",
            ["result", "profile"],
            registry,
        )
        self.pod_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that a pod took until it was bound.",
            buckets=[1, 2, 4, 8, 16],
            registry=registry,
        )

        self.after_flush: Counter | None = None
        if features.counts_flushed:
            self.after_flush = Counter(
                "scheduler_pod_scheduled_after_flush",
                "Pods that were bound after they had been tried again because they had waited too long.",
                registry=registry,
            )

    def _time_attempts(self, registry: "CollectorRegistry") -> None:
        from prometheus_client import Histogram

        self.attempt_seconds = Histograms(
            "scheduler_scheduling_attempt_duration_seconds",
            "Seconds of an attempt: choosing a node and binding.",
            ["result", "profile"],
            _SECONDS,
            registry,
        )
        self.algorithm_seconds = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Seconds of choosing a node.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._points = Histograms(
            "scheduler_framework_extension_point_duration_seconds",
            "Seconds of all plugins of an extension point.",
            ["extension_point", "status", "profile"],
            _EXTENSION_SECONDS,
            registry,
        )
        self.permit_seconds = Histogram(
            "scheduler_permit_wait_duration_seconds",
            "Seconds that pods waited for a permit.",
            ["result"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.sli_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Seconds from a pod's entry into the queue to its binding.",
            ["attempts"],
            buckets=_SLI_SECONDS,
            registry=registry,
        )

    def _time_plugins(self, registry: "CollectorRegistry") -> None:
        self._plugins = Histograms(
            "scheduler_plugin_execution_duration_seconds",
            "Seconds of a plugin at an extension point, in some of the attempts.",
            ["plugin", "extension_point", "status"],
            _PLUGIN_SECONDS,
            registry,
        )
        self._evaluated = Counters(
            "scheduler_plugin_evaluation",
            "Attempts that asked a plugin, by extension point.",
            ["plugin", "extension_point", "profile"],
            registry,
        )

    def _count_preemption(self, registry: "CollectorRegistry", features: SchedulerFeatures) -> None:
        from prometheus_client import Counter, Histogram

        self.preemption_victims = Histogram(
            "scheduler_preemption_victims",
            "Victims of a preemption.",
            buckets=[2**step for step in range(7)],
            registry=registry,
        )
        self.preemption_attempts = Counter(
            "scheduler_preemption_attempts", "How often room was looked for by preemption.", registry=registry
        )
        self._background: tuple[Histogram, Counter] | None = None
        if features.async_preemption:
            self._background = (
                Histogram(
                    "scheduler_preemption_goroutines_duration_seconds",
                    "Seconds of evicting the victims of a pod in the background.",
                    ["result"],
                    buckets=[0.01 * 2**step for step in range(20)],
                    registry=registry,
                ),
                Counter(
                    "scheduler_preemption_goroutines_execution",
                    "How often the victims of a pod were evicted in the background.",
                    ["result"],
                    registry=registry,
                ),
            )

    def _size_up(self, registry: "CollectorRegistry", features: SchedulerFeatures) -> None:
        from prometheus_client import Gauge

        self.pending = Gauge(
            "scheduler_pending_pods", "Pods that wait, by queue.", ["queue"], registry=registry
        )
        self.in_flight: Gauge | None = None
        if features.in_flight_metric:
            self.in_flight = Gauge(
                "scheduler_inflight_events",
                "Pods that are being tried, and events that are kept for them.",
                ["event"],
                registry=registry,
            )
        self.incoming = Counters(
            "scheduler_queue_incoming_pods",
            "Pods put into a queue, by the event that did it.",
            ["queue", "event"],
            registry,
        )
        self.unschedulable = Gauge(
            "scheduler_unschedulable_pods",
            "Pods that fit nowhere, by the plugin that said so.",
            ["plugin", "profile"],
            registry=registry,
        )
        self.cache_sizes = [
            Gauge(name, "What the cache holds, by type.", ["type"], registry=registry)
            for name in features.cache_sizes
        ]
        self.working = Gauge(
            "scheduler_goroutines", "Work under way, by what is done.", ["operation"], registry=registry
        )

    def observe_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        self._points.labels(point, status, profile).observe(seconds)

    def observe_plugin(self, plugin: str, point: str, status: Status, seconds: float) -> None:
        self._plugins.labels(plugin, point, status.code.value).observe(seconds)

    def count_evaluations(self, profile: str, plugin: str, point: str, number: int) -> None:
        self._evaluated.labels(plugin, point, profile).inc(number)

    def observe_preemption(self, result: str, seconds: float) -> None:
        if self._background is not None:
            duration, executions = self._background
            duration.labels(result).observe(seconds)
            executions.labels(result).inc()

"""Metrics of the resource claim controller, named as upstream names them at the release."""

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.resourceclaim.claims import EXTENDED_RESOURCE_ANNOTATION, POD_CLAIM_ANNOTATION
from kubeskew.controllers.resourceclaim.features import MetricFeatures

_CREATION = ("status", "admin_access", "owner_api_group", "owner_api_kind")


class ClaimMetrics(Collector):
    """Counts creations and, when read, claims. Close it, so that another controller may register."""

    def __init__(
        self, registry: CollectorRegistry, features: MetricFeatures, claims: Callable[[], Iterable[Object]]
    ) -> None:
        self._registry = registry
        self._features = features
        self._claims = claims
        self._creations: Counts[tuple[str, str, str, str]] = Counts()  # by _CREATION
        registry.register(self)

    def created(self, *, success: bool, admin_access: bool, owner: Ref) -> None:
        """Counts a creation; `owner` is the resource of its owner: pods, or groups."""
        status = "success" if success else "failure"
        self._creations[status, _text(admin_access), owner.group, owner.kind] += 1

    def close(self) -> None:
        self._registry.unregister(self)

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        if not self._features.by_status:
            yield from self._before_statuses()
            return
        prefix, by_owner = self._features.prefix, self._features.by_owner
        known = len(_CREATION) if by_owner else 2
        created = CounterMetricFamily(
            f"{prefix}resourceclaim_creates" if by_owner else f"{prefix}creates",
            "Number of ResourceClaims creation requests.",
            labels=_CREATION[:known],
        )
        counts: Counts[tuple[str, ...]] = Counts()
        for values, count in self._creations.items():
            counts[values[:known]] += count
        for labels, count in counts.items():
            created.add_metric(labels, count)
        yield created
        names = ["allocated", "admin_access", "source"]
        if not self._features.claims_by_source:
            names.pop()
        present = GaugeMetricFamily(f"{prefix}resource_claims", "Number of ResourceClaims.", labels=names)
        for labels, count in Counts(_labels(claim)[: len(names)] for claim in self._claims()).items():
            present.add_metric(labels, count)
        yield present

    def _before_statuses(self) -> Iterator[Metric]:
        prefix, attempted = self._features.prefix, self._features.attempts
        attempts = sum(self._creations.values())
        failures = sum(count for (status, *_), count in self._creations.items() if status == "failure")
        yield CounterMetricFamily(f"{prefix}{attempted}", "Attempts to create a claim.", value=attempts)
        yield CounterMetricFamily(f"{prefix}create_failures", "Failed attempts.", value=failures)
        if not self._features.claims:
            return
        claims = [*self._claims()]
        allocated = sum(_is_allocated(claim) for claim in claims)
        yield GaugeMetricFamily(f"{prefix}resource_claims", "Number of claims.", value=len(claims))
        yield GaugeMetricFamily(f"{prefix}allocated_resource_claims", "Allocated claims.", value=allocated)


def _is_allocated(claim: Object) -> bool:
    return bool((claim.get("status") or {}).get("allocation"))


def _labels(claim: Object) -> tuple[str, str, str]:
    annotations = claim["metadata"].get("annotations") or {}
    source = ""
    if annotations.get(EXTENDED_RESOURCE_ANNOTATION) == "true":
        source = "extended_resource"
    elif POD_CLAIM_ANNOTATION in annotations:
        source = "resource_claim_template"
    requests = (claim["spec"].get("devices") or {}).get("requests") or ()
    admin = any(
        (request.get("exactly") or {}).get("adminAccess") or request.get("adminAccess")
        for request in requests
    )
    return _text(_is_allocated(claim)), _text(admin), source


def _text(value: bool) -> str:
    return "true" if value else "false"

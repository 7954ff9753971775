"""The scheduler's metrics, with upstream's names (k8s.io/kubernetes/pkg/scheduler/metrics, 1.36)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_SECONDS = [0.001 * 2**step for step in range(15)]
_EXTENSION_SECONDS = [0.0001 * 2**step for step in range(12)]
_SLI_SECONDS = [0.01 * 2**step for step in range(20)]


class Metrics:
    """All metrics of one scheduler, in its own registry."""

    def __init__(self, registry: "CollectorRegistry") -> None:
        self._count_attempts(registry)
        self._time_attempts(registry)
        self._size_up(registry)

    def _count_attempts(self, registry: "CollectorRegistry") -> None:
        from prometheus_client import Counter, Histogram

        self.attempts = Counter(
            "scheduler_schedule_attempts",
            "Attempts at pods, by how they ended.",
            ["result", "profile"],
            registry=registry,
        )
        self.pod_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that a pod took until it was bound.",
            buckets=[1, 2, 4, 8, 16],
            registry=registry,
        )
        self.claim_creates = Counter(
            "scheduler_resourceclaim_creates",
            "ResourceClaims that the scheduler asked the API server to create.",
            ["status"],
            registry=registry,
        )
        for status in ("success", "failure"):
            self.claim_creates.labels(status=status)

    def _time_attempts(self, registry: "CollectorRegistry") -> None:
        from prometheus_client import Histogram

        self.attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Seconds of an attempt: choosing a node and binding.",
            ["result", "profile"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.algorithm_seconds = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Seconds of choosing a node.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._point_seconds = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Seconds of all plugins of an extension point.",
            ["extension_point", "status", "profile"],
            buckets=_EXTENSION_SECONDS,
            registry=registry,
        )
        self.sli_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Seconds from a pod's entry into the queue to its binding.",
            ["attempts"],
            buckets=_SLI_SECONDS,
            registry=registry,
        )

    def _size_up(self, registry: "CollectorRegistry") -> None:
        from prometheus_client import Counter, Gauge

        self.pending = Gauge(
            "scheduler_pending_pods", "Pods that wait, by queue.", ["queue"], registry=registry
        )
        self.incoming = Counter(
            "scheduler_queue_incoming_pods",
            "Pods put into a queue, by the event that did it.",
            ["queue", "event"],
            registry=registry,
        )
        self.unschedulable = Gauge(
            "scheduler_unschedulable_pods",
            "Pods that fit nowhere, by the plugin that said so.",
            ["plugin", "profile"],
            registry=registry,
        )
        self.cache_size = Gauge(
            "scheduler_cache_size", "What the cache holds, by type.", ["type"], registry=registry
        )

    def observe_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """All plugins of an extension point have run."""
        labels = {"extension_point": point, "status": status, "profile": profile}
        self._point_seconds.labels(**labels).observe(seconds)

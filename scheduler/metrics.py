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
        from prometheus_client import Counter, Gauge, Histogram

        self.attempts = Counter(
            "scheduler_schedule_attempts",
            "Number of attempts to schedule pods, by the result.",
            ["result", "profile"],
            registry=registry,
        )
        self.attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds (scheduling algorithm + binding).",
            ["result", "profile"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.algorithm_seconds = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Scheduling algorithm latency in seconds.",
            buckets=_SECONDS,
            registry=registry,
        )
        point_seconds = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Latency for running all plugins of a specific extension point.",
            ["extension_point", "status", "profile"],
            buckets=_EXTENSION_SECONDS,
            registry=registry,
        )
        self._point_seconds = point_seconds
        self.pod_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod.",
            buckets=[1, 2, 4, 8, 16],
            registry=registry,
        )
        self.sli_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue.",
            ["attempts"],
            buckets=_SLI_SECONDS,
            registry=registry,
        )
        self.pending = Gauge(
            "scheduler_pending_pods",
            "Number of pending pods, by the queue type.",
            ["queue"],
            registry=registry,
        )
        self.incoming = Counter(
            "scheduler_queue_incoming_pods",
            "Number of pods added to scheduling queues by event and queue type.",
            ["queue", "event"],
            registry=registry,
        )
        self.unschedulable = Gauge(
            "scheduler_unschedulable_pods",
            "The number of unschedulable pods broken down by plugin name.",
            ["plugin", "profile"],
            registry=registry,
        )
        self.cache_size = Gauge(
            "scheduler_cache_size",
            "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
            ["type"],
            registry=registry,
        )
        self.claim_creates = Counter(
            "scheduler_resourceclaim_creates",
            "Number of ResourceClaims creation requests within scheduler.",
            ["status"],
            registry=registry,
        )
        for status in ("success", "failure"):
            self.claim_creates.labels(status=status)

    def observe_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """All plugins of an extension point have run."""
        labels = {"extension_point": point, "status": status, "profile": profile}
        self._point_seconds.labels(**labels).observe(seconds)

"""Metrics of the device taint eviction controller. Source: its metrics package upstream, 1.33 … 1.37."""

from prometheus_client import CollectorRegistry, Counter, Histogram

_PREFIX = "device_taint_eviction_controller_"
_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)


class EvictionMetrics:
    """Counts evictions. Close it, so that another controller may register."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._deletions = Counter(
            f"{_PREFIX}pod_deletions", "Pods deleted since the start.", registry=registry
        )
        self._latency = Histogram(
            f"{_PREFIX}pod_deletion_duration_seconds",
            "Seconds from when a taint took effect to the deletion of a pod.",
            buckets=_BUCKETS,
            registry=registry,
        )

    def deleted(self, seconds: float) -> None:
        self._deletions.inc()
        self._latency.observe(seconds)

    def close(self) -> None:
        self._registry.unregister(self._deletions)
        self._registry.unregister(self._latency)

"""Metrics of the controller of pool status requests. Source: its metrics package upstream, 1.36 and 1.37."""

from prometheus_client import CollectorRegistry, Counter, Histogram

_PREFIX = "resourcepoolstatusrequest_controller_"
_BUCKETS = tuple(0.001 * 2**power for power in range(15))


class RequestMetrics:
    """Counts requests, by driver. Close it, so that another controller may register."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        driver = ("driver_name",)
        self._processed = Counter(f"{_PREFIX}requests_processed", "Requests.", driver, registry=registry)
        self._failed = Counter(f"{_PREFIX}request_processing_errors", "Failures.", driver, registry=registry)
        name = f"{_PREFIX}request_processing_duration_seconds"
        self._took = Histogram(name, "Seconds per request.", driver, buckets=_BUCKETS, registry=registry)

    def processed(self, driver: str, seconds: float) -> None:
        self._processed.labels(driver).inc()
        self._took.labels(driver).observe(seconds)

    def failed(self, driver: str) -> None:
        self._failed.labels(driver).inc()

    def close(self) -> None:
        for metric in (self._processed, self._failed, self._took):
            self._registry.unregister(metric)

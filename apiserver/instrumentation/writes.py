"""Counts writes: the steps of admission, and what the store is asked.

Sources, 1.36: k8s.io/apiserver/pkg/admission/metrics/metrics.go, pkg/storage/etcd3/metrics/metrics.go.
"""

from kubeskew.apimachinery.metrics.series import Families, HistogramSeries, NumberSeries
from kubeskew.apiserver.instrumentation.reads import of_resource


class AdmissionMetrics:
    """Times the two steps of admission, and each plugin in them."""

    def __init__(self, families: Families) -> None:
        self._steps = families.histograms(
            "apiserver_admission_step_admission_duration_seconds", "Seconds of a step of admission."
        )
        self._plugins = families.histograms(
            "apiserver_admission_controller_admission_duration_seconds", "Seconds of an admission plugin."
        )

    def step(self, kind: str, operation: str, *, rejected: bool = False) -> HistogramSeries:
        """Returns what times a step."""
        return self._steps.at(type=kind, operation=operation, rejected=str(rejected).lower())

    def plugin(self, name: str, kind: str, operation: str, *, rejected: bool = False) -> HistogramSeries:
        """Returns what times a plugin; what is none upstream has no name, and is not shown."""
        if not name:
            return HistogramSeries(self._plugins.bounds)
        return self._plugins.at(name=name, type=kind, operation=operation, rejected=str(rejected).lower())


class StoreMetrics:
    """Times writes of the event store, which stands where upstream's etcd does."""

    def __init__(self, families: Families) -> None:
        self._requests = families.counters("etcd_requests_total", "Writes of the store.")
        self._errors = families.counters("etcd_request_errors_total", "Writes that the store failed.")
        self._seconds = families.histograms("etcd_request_duration_seconds", "Seconds of a write.")
        self._series: dict[tuple[str, str], tuple[NumberSeries, HistogramSeries]] = {}

    def wrote(self, operation: str, storage_resource: str, seconds: float) -> None:
        """Counts a write that the store has made, or refused as somebody was faster."""
        found = self._series.get((operation, storage_resource))
        if found is None:
            found = self._series[operation, storage_resource] = (
                of_resource(self._requests, storage_resource, operation=operation),
                of_resource(self._seconds, storage_resource, operation=operation),
            )
        found[0].value += 1
        found[1].observe(seconds)

    def failed(self, operation: str, storage_resource: str) -> None:
        """Counts a write that the database did not take."""
        of_resource(self._errors, storage_resource, operation=operation).inc()

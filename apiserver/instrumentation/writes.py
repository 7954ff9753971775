"""Counts writes: the steps of admission, and what the store is asked.

Sources, 1.36: k8s.io/apiserver/pkg/admission/metrics/metrics.go, pkg/storage/etcd3/metrics/metrics.go.
"""

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kubeskew.apimachinery.metrics.series import Families, HistogramSeries, NumberSeries
from kubeskew.apiserver.instrumentation.reads import of_resource

if TYPE_CHECKING:
    from prometheus_client import Metric

_SUMMARY = "apiserver_admission_step_admission_duration_seconds_summary"
_QUANTILES = (0.5, 0.9, 0.99)
_KEPT = 1_000  # durations of a step


class StepSeries:
    """Holds the durations of one step of admission, and the last of them, of which there are quantiles."""

    __slots__ = ("_recent", "histogram")

    def __init__(self, histogram: HistogramSeries) -> None:
        self.histogram = histogram
        self._recent: deque[float] = deque(maxlen=_KEPT)

    def observe(self, seconds: float) -> None:
        """Adds a step."""
        self.histogram.observe(seconds)
        self._recent.append(seconds)

    def quantiles(self) -> Iterator[tuple[float, float]]:
        """Yields quantiles, each with its seconds; none before the first step."""
        ordered = sorted(self._recent)
        for quantile in _QUANTILES if ordered else ():
            yield quantile, ordered[int(quantile * len(ordered))]


class AdmissionMetrics:
    """Times the two steps of admission, and each plugin in them."""

    def __init__(self, families: Families) -> None:
        self._steps = families.histograms(
            "apiserver_admission_step_admission_duration_seconds", "Seconds of a step of admission."
        )
        self._plugins = families.histograms(
            "apiserver_admission_controller_admission_duration_seconds", "Seconds of an admission plugin."
        )
        self._series: dict[tuple[str, str, bool], StepSeries] = {}
        families.collector(self)

    def step(self, kind: str, operation: str, *, rejected: bool = False) -> StepSeries:
        """Returns what times a step."""
        found = self._series.get((kind, operation, rejected))
        if found is None:
            histogram = self._steps.at(type=kind, operation=operation, rejected=str(rejected).lower())
            found = self._series[kind, operation, rejected] = StepSeries(histogram)
        return found

    def collect(self) -> "Iterator[Metric]":
        """Yields the summary of steps, for the registry."""
        from prometheus_client import Metric

        summary = Metric(_SUMMARY, "Seconds of a step of admission, by quantiles.", "summary")
        for (kind, operation, rejected), series in self._series.items():
            if not series.histogram.count:
                continue
            labels = {"operation": operation, "rejected": str(rejected).lower(), "type": kind}
            for quantile, seconds in series.quantiles():
                summary.add_sample(_SUMMARY, {**labels, "quantile": str(quantile)}, seconds)
            summary.add_sample(f"{_SUMMARY}_sum", labels, series.histogram.total)
            summary.add_sample(f"{_SUMMARY}_count", labels, series.histogram.count)
        yield summary

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

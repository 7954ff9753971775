"""Counts requests and flows, in a Prometheus registry of the server's own."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from kubeskew.apimachinery.metrics.series import Gauges, NumberSeries
from kubeskew.apiserver.http.request_info import RequestInfo

# k8s.io/apiserver/pkg/endpoints/metrics/metrics.go, 1.36.
_SECONDS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip
_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "component")
_VERBS = {"list": "LIST", "deletecollection": "DELETECOLLECTION", "watch": "WATCH"}
_METHODS = {"get": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}


class _Series:
    """The answers of one label set: how many by code, and how long they took."""

    __slots__ = ("buckets", "codes", "labels", "seconds")

    def __init__(self, labels: tuple[str, ...]) -> None:
        self.labels = labels
        self.codes: dict[int, int] = {}
        self.buckets = [0] * (len(_SECONDS) + 1)  # the last: longer than all
        self.seconds = 0.0

    def count(self, code: int) -> None:
        self.codes[code] = self.codes.get(code, 0) + 1

    def time(self, seconds: float) -> None:
        self.buckets[bisect_left(_SECONDS, seconds)] += 1
        self.seconds += seconds


class RequestMetrics:
    """Counters of requests, which become metrics when somebody looks: those of a library cost more.

    `is_known` is whether something is served there: what clients make up is counted together, or they could
    fill the memory with label sets. `connect_verb`: connections into pods have the verb CONNECT (111988).
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(
        self, is_known: Callable[[RequestInfo], bool] = lambda _: True, *, connect_verb: bool = True
    ) -> None:
        self._is_known = is_known
        self._connect_verb = connect_verb
        self.registry = CollectorRegistry()
        self._series: dict[RequestKind, _Series] = {}
        self._open: dict[RequestKind, NumberSeries] = {}
        self.registry.register(self)
        self._long_running = Gauges(
            "apiserver_longrunning_requests",
            "Watches, logs that are followed and upgraded connections that are open.",
            _LABELS,
            self.registry,
        )

    def observe(self, info: RequestInfo, code: int, seconds: float) -> None:
        """Count one answer."""
        key = _kind(info)
        series = self._series.get(key)
        if series is None:
            if info is not _UNKNOWN and not self._is_known(info):
                self.observe(_UNKNOWN, code, seconds)
                return
            series = self._series[key] = _Series(self.labels(info))
        series.count(code)
        if not info.is_long_running:
            series.time(seconds)

    @contextmanager
    def long_running(self, info: RequestInfo) -> Iterator[None]:
        """Counts an answer that has no end yet, for as long as the context lasts (RecordLongRunning).

        What another server answers is not counted, as upstream's aggregator does not.
        """
        if not self._is_known(info):
            yield
            return
        key = _kind(info)
        series = self._open.get(key)
        if series is None:
            series = self._open[key] = self._long_running.labels(*self.labels(info))
        series.inc()
        try:
            yield
        finally:
            series.inc(-1)

    def collect(self) -> Iterator[Metric]:
        """Yields the counts, for the registry."""
        total = CounterMetricFamily(
            "apiserver_request", "Requests by verb, resource and code.", labels=(*_LABELS, "code")
        )
        duration = HistogramMetricFamily(
            "apiserver_request_duration_seconds", "Seconds from the request to its answer.", labels=_LABELS
        )
        bounds = [*(str(float(bound)) for bound in _SECONDS), "+Inf"]
        for series in self._series.values():
            for code, count in series.codes.items():
                total.add_metric((*series.labels, str(code)), count)
            buckets = list(zip(bounds, accumulate(series.buckets), strict=True))
            if buckets[-1][1]:
                duration.add_metric(series.labels, buckets, series.seconds)
        yield total
        yield duration

    def labels(self, info: RequestInfo) -> tuple[str, ...]:
        """Returns the label values of a request, without the code."""
        verb = _VERBS.get(info.verb) or _METHODS.get(info.verb, info.verb.upper())
        if self._connect_verb and info.is_resource and info.is_connection:
            verb = "CONNECT"
        return verb, info.group, info.version, info.resource, info.subresource, _scope(info), "apiserver"

    def render(self) -> bytes:
        """Returns the text that a scraper reads."""
        return generate_latest(self.registry)


RequestKind = tuple[str, str, str, str, str, str]  # verb, group, version, resource, subresource, scope


class FlowMetrics:
    """Counters of API priority and fairness (pkg/util/flowcontrol/metrics/metrics.go, 1.36)."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._dispatched: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._rejected: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        registry.register(self)

    def dispatched(self, level: str, schema: str) -> None:
        """Count a request that got its seat."""
        self._dispatched[level, schema] += 1

    def rejected(self, level: str, schema: str, reason: str) -> None:
        """Count a request that got none."""
        self._rejected[level, schema, reason] += 1

    def collect(self) -> Iterator[Metric]:
        """Yields the counts, for the registry."""
        name, labels = "apiserver_flowcontrol", ("priority_level", "flow_schema")
        let_in = CounterMetricFamily(
            f"{name}_dispatched_requests", "Requests that were let in.", labels=labels
        )
        for place, count in self._dispatched.items():
            let_in.add_metric(place, count)
        turned_away = CounterMetricFamily(
            f"{name}_rejected_requests", "Requests that found no seat.", labels=(*labels, "reason")
        )
        for place_and_reason, count in self._rejected.items():
            turned_away.add_metric(place_and_reason, count)
        yield let_in
        yield turned_away


_UNKNOWN = RequestInfo(False, "", "other")


def _kind(info: RequestInfo) -> RequestKind:
    return info.verb, info.group, info.version, info.resource, info.subresource, _scope(info)


def _scope(info: RequestInfo) -> str:
    if not info.is_resource:
        return ""
    if info.name or info.verb == "create":
        return "resource"
    return "namespace" if info.namespace else "cluster"

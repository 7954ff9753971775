"""Counts requests and flows, in a Prometheus registry of the server's own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from kubeskew.apimachinery.metrics.series import Counters, Gauges, Histograms, HistogramSeries, NumberSeries
from kubeskew.apiserver.http.request_info import RequestInfo

# k8s.io/apiserver/pkg/endpoints/metrics/metrics.go, 1.36.
_SECONDS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip
_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "component")
_VERBS = {"list": "LIST", "deletecollection": "DELETECOLLECTION", "watch": "WATCH"}
_METHODS = {"get": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}


class RequestMetrics:
    """Counts requests, and those that have no end yet.

    Series are kept by what decides their labels, as making these costs more than counting. `is_known` is
    whether something is served there: what clients make up is counted together, or they could fill the memory
    with label sets. `connect_verb`: connections into pods have the verb CONNECT (111988).
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(
        self, is_known: Callable[[RequestInfo], bool] = lambda _: True, *, connect_verb: bool = True
    ) -> None:
        self._is_known = is_known
        self._connect_verb = connect_verb
        self.registry = CollectorRegistry()
        self._totals = Counters(
            "apiserver_request",
            "Requests by verb, resource and code.",
            (*_LABELS, "code"),
            self.registry,
        )
        self._durations = Histograms(
            "apiserver_request_duration_seconds",
            "Seconds from the request to its answer.",
            _LABELS,
            _SECONDS,
            self.registry,
        )
        self._long_running = Gauges(
            "apiserver_longrunning_requests",
            "Watches, logs that are followed and upgraded connections that are open.",
            _LABELS,
            self.registry,
        )
        self._answered: dict[tuple[RequestKind, int], NumberSeries] = {}
        self._timed: dict[RequestKind, HistogramSeries] = {}
        self._open: dict[RequestKind, NumberSeries] = {}

    def observe(self, info: RequestInfo, code: int, seconds: float) -> None:
        """Counts one answer."""
        key = _kind(info)
        answered = self._answered.get((key, code))
        if answered is None:
            if info is not _UNKNOWN and not self._is_known(info):
                self.observe(_UNKNOWN, code, seconds)
                return
            answered = self._answered[key, code] = self._totals.labels(*self.labels(info), str(code))
        answered.inc()
        if not info.is_long_running:
            timed = self._timed.get(key)
            if timed is None:
                timed = self._timed[key] = self._durations.labels(*self.labels(info))
            timed.observe(seconds)

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
        name, labels = "apiserver_flowcontrol", ("priority_level", "flow_schema")
        self._dispatched = Counters(
            f"{name}_dispatched_requests", "Requests that were let in.", labels, registry
        )
        self._rejected = Counters(
            f"{name}_rejected_requests", "Requests that found no seat.", (*labels, "reason"), registry
        )

    def dispatched(self, level: str, schema: str) -> None:
        """Counts a request that got its seat."""
        self._dispatched.labels(level, schema).inc()

    def rejected(self, level: str, schema: str, reason: str) -> None:
        """Counts a request that got none."""
        self._rejected.labels(level, schema, reason).inc()


_UNKNOWN = RequestInfo(False, "", "other")


def _kind(info: RequestInfo) -> RequestKind:
    return info.verb, info.group, info.version, info.resource, info.subresource, _scope(info)


def _scope(info: RequestInfo) -> str:
    if not info.is_resource:
        return ""
    if info.name or info.verb == "create":
        return "resource"
    return "namespace" if info.namespace else "cluster"

"""Request metrics, in a Prometheus registry of the server's own (pkg/endpoints/metrics/metrics.go, 1.36)."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry

from kubeskew.apimachinery.metrics.exposition import content_type, exposition
from kubeskew.apimachinery.metrics.series import Families, HistogramSeries, NumberSeries
from kubeskew.apimachinery.versions import NEWEST_MINOR, Version
from kubeskew.apiserver.http.request import Request, RequestInfo, Response
from kubeskew.apiserver.instrumentation import (
    AccessMetrics,
    AdmissionMetrics,
    PolicyMetrics,
    ReadMetrics,
    SeatWaits,
    StoreMetrics,
    StrategyMetrics,
    TokenMetrics,
)

_NEWEST = Version(NEWEST_MINOR)
_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "component")
# Paths of no resource that upstream counts; those of schemas as one.
_SCHEMAS = "/openapi/v3"
_INSTRUMENTED = frozenset({"/healthz", "/livez", "/readyz", "openapi/v3"})
_VERBS = {"list": "LIST", "deletecollection": "DELETECOLLECTION", "watch": "WATCH"}
_METHODS = {"get": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}


class RequestMetrics:
    """Counts requests, and those that have not ended yet.

    Series are kept by the request's kind, as making their labels costs more than counting. `is_known` says if
    something is served there: what clients make up is counted together, or they could fill the memory with
    label sets. `connect_verb`: connections into pods have the verb CONNECT (111988).

    """

    def __init__(
        self,
        is_known: Callable[[RequestInfo], bool] = lambda _: True,
        *,
        connect_verb: bool = True,
        constrained_impersonation: bool = False,
        version: Version = _NEWEST,
    ) -> None:
        self._is_known = is_known
        self._connect_verb = connect_verb
        self._version = version
        self.registry = CollectorRegistry()
        self.families = families = Families(self.registry, version)
        self._totals = families.counters("apiserver_request_total", "Requests by verb, resource and code.")
        self._durations = families.histograms(
            "apiserver_request_duration_seconds", "Seconds from the request to its answer."
        )
        self._sli = families.histograms(
            "apiserver_request_sli_duration_seconds", "Seconds of a request without those of webhooks."
        )
        self._sizes = families.histograms("apiserver_response_sizes", "Bytes of answers to reads.")
        self._bodies = families.histograms(
            "apiserver_request_body_size_bytes", "Bytes of bodies of requests that write."
        )
        self._validated = families.histograms(
            "field_validation_request_duration_seconds", "Seconds of requests by field validation."
        )
        self._long_running = families.gauges(
            "apiserver_longrunning_requests",
            "Watches, logs that are followed and upgraded connections that are open.",
        )
        self._deprecated = families.gauges(
            "apiserver_requested_deprecated_apis", "Deprecated resources that somebody asked for."
        )
        self._own = families.counters("apiserver_selfrequest_total", "Requests of the server's own.")
        self.access = AccessMetrics(families)
        self.tokens = TokenMetrics(families)
        self.reads = ReadMetrics(families)
        self.policies = PolicyMetrics(families)
        self.strategies = StrategyMetrics(families)
        self.seat_waits: SeatWaits | None = None  # of a server with priority and fairness
        self.aggregations = families.counters(
            "aggregator_discovery_aggregation_count_total", "How often discovery was aggregated."
        ).at()
        self._filters = families.histograms(
            "apiserver_request_filter_duration_seconds", "Seconds that a request spends in a filter."
        )
        self._compared = families.histograms(
            "apiserver_request_timestamp_comparison_time", "Seconds of comparing objects before an update."
        )
        self.comparisons: Counter[str] = Counter()  # by how they went
        self._impersonation = "constrainedimpersonation" if constrained_impersonation else "impersonation"
        self.admission = AdmissionMetrics(families)
        self.store = StoreMetrics(families)
        self.looks: list[Callable[[], None]] = []  # called before the families are read
        self._kinds: dict[_KindKey, _KindSeries] = {}  # of what most requests are
        self._rares: dict[tuple[RequestKind, str], _KindSeries] = {}  # of all, by kind and dry run
        self._open: dict[RequestKind, NumberSeries] = {}

    @property
    def content_type(self) -> str:
        return content_type(self._version)

    def observe(self, request: Request, response: Response, seconds: float) -> None:
        info = request.info
        key = info[2:7], info.name == "", info.namespace == ""
        series = self._kinds.get(key) if info.is_resource and "dryRun" not in request.query else None
        if series is None:
            series = self._rare(request, key)
            if series is None:
                return
        answered = series.answered.get(response.status)
        if answered is None:
            labels = {**series.labels, "code": str(response.status)}
            answered = series.answered[response.status] = self._totals.at(**labels)
        answered.value += 1
        if series.duration is not None:
            series.duration.observe(seconds)
            if series.size is not None and isinstance(response.body, bytes):
                series.size.observe(len(response.body))
        if series.body is not None and request.size:
            series.body.observe(request.size)

    def _rare(self, request: Request, key: "_KindKey") -> "_KindSeries | None":
        """Looks up requests that are the first of their kind, dry runs, or of no resource; None if upstream
        does not count them.
        """
        info, dry_run = request.info, request.query["dryRun"][0] if "dryRun" in request.query else ""
        if not info.is_resource:
            path = "openapi/v3" if info.path.startswith(_SCHEMAS) else info.path
            if path not in _INSTRUMENTED:
                return None
            info = info._replace(path=path)
        if not self._is_known(info):
            info, dry_run = _UNKNOWN, ""
        rare = _kind(info), dry_run
        series = self._rares.get(rare)
        if series is None:
            series = self._rares[rare] = self._series(info, dry_run)
        if info.is_resource and not dry_run:
            self._kinds[key] = series
        return series

    def deprecated(self, info: RequestInfo, removed: str) -> None:
        """`removed` is the minor that no longer serves the resource."""
        self._deprecated.at(
            group=info.group,
            version=info.version,
            resource=info.resource,
            subresource=info.subresource,
            removed_release=removed,
        ).value = 1

    def self_requested(self, info: RequestInfo) -> None:
        self._own.at(**dict(zip(_LABELS, self.labels(info), strict=True))).inc()

    def _series(self, info: RequestInfo, dry_run: str) -> "_KindSeries":
        """Requests without an end are not timed, and a dry run has no SLI."""
        labels = {**dict(zip(_LABELS, self.labels(info), strict=True)), "dry_run": dry_run and "All"}
        made = _KindSeries(labels)
        if not info.is_long_running:
            made.duration = self._durations.at(**labels)
            made.sli = None if dry_run else self._sli.at(**labels)
            if labels["verb"] in {"GET", "LIST"}:
                made.size = self._sizes.at(**labels)
            elif info.is_resource:
                made.body = self._bodies.at(**{**labels, "verb": info.verb})
            if info.is_resource:
                self._validated.at(field_validation="")  # upstream never observes one either
        return made

    @contextmanager
    def long_running(self, info: RequestInfo) -> Iterator[None]:
        """Counts an answer that has not ended yet, for as long as the context lasts (RecordLongRunning).

        Answers of another server are not counted, as upstream's aggregator does not.


        """
        if not self._is_known(info):
            yield
            return
        key = _kind(info)
        series = self._open.get(key)
        if series is None:
            labels = dict(zip(_LABELS, self.labels(info), strict=True))
            series = self._open[key] = self._long_running.at(**labels)
        series.inc()
        try:
            yield
        finally:
            series.inc(-1)

    def labels(self, info: RequestInfo) -> tuple[str, ...]:
        """Values are in the order of _LABELS."""
        verb = _VERBS.get(info.verb) or _METHODS.get(info.verb, info.verb.upper())
        if self._connect_verb and info.is_resource and info.is_connection:
            verb = "CONNECT"
        if not info.is_resource:
            return verb, "", "", "", "" if info is _UNKNOWN else info.path, "", ""
        return verb, info.group, info.version, info.resource, info.subresource, _scope(info), "apiserver"

    def render(self) -> bytes:
        for look in self.looks:
            look()
        self.access.look()
        self.tokens.look()
        self.reads.look()
        self._fill_filters()
        for outcome, count in self.comparisons.items():
            self._compared.at(code_path=outcome).set_all(0, count)
        for kind in self._rares.values():
            if kind.sli is not None and kind.duration is not None:
                kind.sli.copy(kind.duration)
        return exposition(self.registry.collect(), self._version)

    def _fill_filters(self) -> None:
        """Times of filters (pkg/endpoints/filterlatency/filterlatency.go, 1.36).

        Of these only that of priority and fairness waits, for seats.

        """
        known, allowed = self.access.known, self.access.allowed
        seated = allowed + self.access.not_allowed
        rejected = self.seat_waits.rejections if self.seat_waits is not None else 0
        passed = {
            "authentication": known + self.access.unknown,
            "audit": known,
            self._impersonation: seated + rejected,
            "authorization": allowed,
        }
        for name, count in passed.items():
            if count:
                self._filters.at(filter=name).set_all(0, count)
        if self.seat_waits is not None and seated:
            series, waits = self._filters.at(filter="priorityandfairness"), self.seat_waits.seconds
            series.set_all(0, seated - waits.count)
            series.add(waits)


class _KindSeries:
    """A figure that the kind does not have is None."""

    __slots__ = ("answered", "body", "duration", "labels", "size", "sli")

    def __init__(self, labels: dict[str, str]) -> None:
        self.labels = labels
        self.answered: dict[int, NumberSeries] = {}
        self.duration: HistogramSeries | None = None
        self.sli: HistogramSeries | None = None
        self.size: HistogramSeries | None = None
        self.body: HistogramSeries | None = None


# The fields of a request's info from its verb to its subresource; with whether it has no name, no namespace.
_KindKey = tuple[tuple[str, str, str, str, str], bool, bool]
RequestKind = tuple[str, str, str, str, str, str]  # verb, group, version, resource, subresource, scope


_UNKNOWN = RequestInfo(False, "", "other")


def _kind(info: RequestInfo) -> RequestKind:
    if not info.is_resource:
        return info.verb, "", "", "", info.path, ""
    return info.verb, info.group, info.version, info.resource, info.subresource, _scope(info)


def _scope(info: RequestInfo) -> str:
    if not info.is_resource:
        return ""
    if info.name or info.verb == "create":
        return "resource"
    return "namespace" if info.namespace else "cluster"

"""Metrics of the API server, in a Prometheus registry of its own: upstream's families that its minor has.

Strategies never wait, so their counts take no time by the clock of the server.

Sources, all 1.36: k8s.io/apiserver (pkg/endpoints/metrics/metrics.go, pkg/endpoints/filters/metrics.go,
pkg/storage/{cacher,etcd3}/metrics/metrics.go, pkg/admission/metrics/metrics.go),
pod-security-admission/metrics/metrics.go, pkg/registry/core/service/{ipallocator,portallocator}/metrics.go,
apiextensions-apiserver/pkg/apiserver/validation/metrics.go.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from prometheus_client import CollectorRegistry

from kubeskew.apimachinery.metrics.addition import added_up
from kubeskew.apimachinery.metrics.exposition import content_type, exposition
from kubeskew.apimachinery.metrics.series import (
    Counters,
    Families,
    Histograms,
    HistogramSeries,
    NumberSeries,
    nearest,
)
from kubeskew.apimachinery.resources import Resource
from kubeskew.apimachinery.versions import NEWEST_MINOR, Version
from kubeskew.apiserver.http.request import Request, RequestInfo, Response

if TYPE_CHECKING:
    from prometheus_client import Metric

_KNOWN = frozenset({"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"})
_FILTERS = "apiserver_request_filter_duration_seconds"
_NOTED_MAX = 4_096  # events
_S = TypeVar("_S", covariant=True)
_OPERATIONS = ("create", "update")
_Evaluation = tuple[str, tuple[str, str], tuple[str, str, str], bool]  # mode, level, where, whether allowed
_ADDRESSES = "kube_apiserver_clusterip_allocator_allocation"
_PORTS = "kube_apiserver_nodeport_allocator_allocation"
_SUMMARY = "apiserver_admission_step_admission_duration_seconds_summary"
_QUANTILES = (0.5, 0.9, 0.99)
_KEPT = 1_000  # durations of a step


class AccessMetrics:
    """Counts attempts at authentication and authorization.

    Both answer from memory and never wait, so they take no time by the clock of the server, which stands
    still meanwhile: only their numbers are kept.


    """

    def __init__(self, families: Families) -> None:
        self.allowed = self.not_allowed = self.unknown = 0  # requests; the last ones have no known user
        self._users = families.counters("authenticated_user_requests", "Authenticated requests by user.")
        self._expiration = families.histograms(
            "apiserver_client_certificate_expiration_seconds", "Seconds until certificates of clients expire."
        ).at()
        self._of_user: dict[str, int] = {}
        self._authentication = (
            families.counters("authentication_attempts", "Attempts at authentication by result."),
            families.histograms("authentication_duration_seconds", "Seconds of authentication by result."),
        )
        self._authorization = (
            families.counters("authorization_attempts_total", "Attempts at authorization by result."),
            families.histograms("authorization_duration_seconds", "Seconds of authorization by result."),
        )

    def authenticated(self, user: str) -> None:
        """Users that are not well known are counted together."""
        label = user if user in _KNOWN else "email_id" if "@" in user else "other"
        self._of_user[label] = self._of_user.get(label, 0) + 1

    @property
    def known(self) -> int:
        return sum(self._of_user.values())

    def look(self) -> None:
        """Fills the families. No authorizer here denies what another may still allow."""
        for label, count in self._of_user.items():
            self._users.at(username=label).value = count
        _fill(self._authentication, {"success": self.known, "failure": self.unknown})
        _fill(self._authorization, {"allowed": self.allowed, "no-opinion": self.not_allowed})

    def certified(self, seconds: float) -> None:
        """`seconds` remain until the certificate expires."""
        self._expiration.observe(seconds)


def _fill(families: tuple[Counters, Histograms], counts: dict[str, int]) -> None:
    attempts, seconds = families
    for result, count in counts.items():
        if count:
            attempts.at(result=result).value = count
            seconds.at(result=result).set_all(0, count)


class TokenMetrics:
    """Counts uses of service accounts' tokens (pkg/serviceaccount/metrics.go, 1.36)."""

    def __init__(self, families: Families) -> None:
        def counter(name: str, text: str) -> NumberSeries:
            return families.counters(f"serviceaccount_{name}_total", text).at()

        cache = "authentication_token_cache"
        self._asked = (
            families.counters(f"{cache}_request_total", "Looks for a token that was verified before."),
            families.histograms(f"{cache}_request_duration_seconds", "Seconds of these."),
        )
        self._fetched = families.counters(f"{cache}_fetch_total", "Tokens verified as they were not found.")
        self._fetching = families.gauges(f"{cache}_active_fetch_count", "Tokens that are being verified.")
        self.hits = self.verified = self.wrong = 0  # tokens of accounts
        self.legacy = counter("legacy_tokens", "Tokens in Secrets that were used.")
        self.stale = counter("stale_tokens", "Tokens used though they were to be renewed.")
        self.valid = counter("valid_tokens", "Tokens used before they were to be renewed.")
        self.manual = counter("legacy_manual_token_uses", "Uses of tokens in Secrets that somebody made.")
        self.automatic = counter("legacy_auto_token_uses", "Uses of tokens in Secrets that accounts list.")
        self.invalidated = counter(
            "invalid_legacy_auto_token_uses", "Uses of tokens in Secrets that were marked as invalid."
        )

    def look(self) -> None:
        """Fills the families of the cache of verified tokens; no request waits for a verification."""
        misses = self.verified + self.wrong
        if not self.hits and not misses:
            return
        for status, count in (("hit", self.hits), ("miss", misses)):
            if count:
                self._asked[0].at(status=status).value = count
                self._asked[1].at(status=status).set_all(0, count)
        for status, count in (("ok", self.verified), ("error", self.wrong)):
            if count:
                self._fetched.at(status=status).value = count
        for status in ("blocked", "in_flight"):
            self._fetching.at(status=status).value = 0


class SeatWaits:
    """Counts requests that got no seat, and the seconds that others waited until they got one."""

    __slots__ = ("rejections", "seconds")

    def __init__(self) -> None:
        self.rejections = 0
        self.seconds = HistogramSeries(nearest(_FILTERS, NEWEST_MINOR).buckets)


class ByResource(Protocol[_S]):
    """A family that has a label `resource`."""

    def at(self, **labels: str) -> _S: ...
    def has_label(self, name: str) -> bool: ...


def of_resource(family: ByResource[_S], storage_resource: str, **more: str) -> _S:
    """Without a label `group`, the resource's label holds the group too."""
    resource, _, group = storage_resource.partition(".")
    return family.at(
        group=group,
        resource=resource if family.has_label("group") else storage_resource,
        resource_prefix=f"/{group}/{resource}" if group else f"/{resource}",
        type=storage_resource,
        **more,
    )


class Tally:
    """Counts the lists that one place has answered, and the objects that they looked at and returned."""

    __slots__ = ("fetched", "lists", "returned")

    def __init__(self) -> None:
        self.lists = self.fetched = self.returned = 0

    def add(self, fetched: int, returned: int) -> None:
        self.lists += 1
        self.fetched += fetched
        self.returned += returned

    def plus(self, other: "Tally") -> "Tally":
        summed = Tally()
        summed.lists, summed.fetched = self.lists + other.lists, self.fetched + other.fetched
        summed.returned = self.returned + other.returned
        return summed


class ListSeries:
    """Counts the lists of one resource: those that the watch cache answers, and those that the store does."""

    __slots__ = ("cached", "consistent", "filling", "stored", "waits")

    def __init__(self, waits: HistogramSeries) -> None:
        self.cached, self.stored = Tally(), Tally()
        self.filling = Tally()  # of the watch cache, which lists the store as well
        self.consistent = 0  # lists of now that the cache answered
        self.waits = waits  # for the cache to be fresh


class _Lists:
    """Counts lists that one place answers, in three families."""

    def __init__(self, families: Families, prefix: str, where: str) -> None:
        self._lists = families.counters(f"{prefix}_total", f"Lists answered from {where}.")
        self._fetched = families.counters(
            f"{prefix}_fetched_objects_total", f"Objects that lists from {where} looked at."
        )
        self._returned = families.counters(
            f"{prefix}_returned_objects_total", f"Objects that lists from {where} returned."
        )

    def fill(self, storage_resource: str, tally: Tally) -> None:
        of_resource(self._lists, storage_resource).value = tally.lists
        of_resource(self._fetched, storage_resource).value = tally.fetched
        of_resource(self._returned, storage_resource).value = tally.returned


class ReadMetrics:
    """Counts lists, by where upstream would answer them from, and events that watches send."""

    def __init__(self, families: Families) -> None:
        self._cached = _Lists(families, "apiserver_cache_list", "the watch cache")
        self._stored = _Lists(families, "apiserver_storage_list", "storage")
        self._evaluated = families.counters(
            "apiserver_storage_list_evaluated_objects_total", "Objects tested by lists from storage."
        )
        self._consistent = families.counters(
            "apiserver_watch_cache_consistent_read_total", "Consistent reads answered from the watch cache."
        )
        self._waited = families.histograms(
            "apiserver_watch_cache_read_wait_seconds", "Seconds until the watch cache was fresh."
        )
        self._watch_lists = families.histograms(
            "apiserver_watch_list_duration_seconds", "Seconds until a watch had sent what there is."
        )
        self._initial = families.counters(
            "apiserver_init_events_total", "Events with which watches began, by resource."
        )
        self._events = families.counters("apiserver_watch_events_total", "Events sent to watches.")
        self._sizes = families.histograms("apiserver_watch_events_sizes", "Bytes of events sent to watches.")
        self._lists: dict[str, ListSeries] = {}
        self._watches: dict[tuple[str, str, str], WatchSeries] = {}

    def lists(self, storage_resource: str) -> ListSeries:
        found = self._lists.get(storage_resource)
        if found is None:
            found = self._lists[storage_resource] = ListSeries(HistogramSeries(self._waited.bounds))
        return found

    def filled(self, storage_resource: str, times: int, objects: int) -> None:
        """Takes over the fillings of a resource's watch cache, each by a list of the store."""
        filling = self.lists(storage_resource).filling
        filling.lists, filling.fetched, filling.returned = times, objects, objects

    def look(self) -> None:
        for resource, counted in self._lists.items():
            if counted.waits.count:
                of_resource(self._waited, resource).copy(counted.waits)
            if counted.consistent:
                consistent = of_resource(self._consistent, resource, success="true", fallback="false")
                consistent.value = counted.consistent
            if counted.cached.lists:
                self._cached.fill(resource, counted.cached)
            lists = counted.stored.plus(counted.filling)
            if lists.lists:
                self._stored.fill(resource, lists)
                of_resource(self._evaluated, resource).value = lists.fetched
        for watch in self._watches.values():
            watch.look()

    def watch_listed(self, resource: Resource, scope: str, seconds: float) -> None:
        """`seconds` passed until the watch had sent all existing objects."""
        self._watch_lists.at(
            group=resource.group, version=resource.version, resource=resource.plural, scope=scope
        ).observe(seconds)

    def begun(self, storage_resource: str, events: int) -> None:
        if events:
            of_resource(self._initial, storage_resource).inc(events)

    def watch(self, resource: Resource) -> "WatchSeries":
        key = resource.group, resource.version, resource.plural
        found = self._watches.get(key)
        if found is None:
            labels = {
                "group": resource.group,
                "version": resource.version,
                "kind": resource.kind,
                "resource": resource.plural,
            }
            found = self._watches[key] = WatchSeries(self._events.at(**labels), self._sizes.at(**labels))
        return found


class WatchSeries:
    """Counts the events of watches of one resource, and their bytes."""

    __slots__ = ("_count", "_noted", "_sizes")

    def __init__(self, count: NumberSeries, sizes: HistogramSeries) -> None:
        self._count, self._sizes = count, sizes
        self._noted: list[int] = []  # bytes of events that are not counted yet

    def sent(self, lines: Sequence[bytes]) -> None:
        """Sums up when many events are noted: a sum for each would cost the watch more."""
        self._noted.extend(map(len, lines))
        if len(self._noted) > _NOTED_MAX:
            self.look()

    def look(self) -> None:
        noted, self._noted = self._noted, []
        self._count.value += len(noted)
        for size in noted:
            self._sizes.observe(size)


class PolicyMetrics:
    """Counts evaluations by decision, mode and level; no request is exempt here."""

    def __init__(self, families: Families) -> None:
        self._evaluations = families.counters(
            "pod_security_evaluations_total", "Evaluations of pods, by decision."
        )
        self._series: dict[_Evaluation, NumberSeries] = {}
        for operation in _OPERATIONS:
            self._evaluations.at(
                **_labels("allow", "enforce", ("privileged", "latest"), operation, "pod", "")
            )
        exemptions = families.counters("pod_security_exemptions_total", "Requests that are exempt.")
        for operation in _OPERATIONS:
            for resource in ("pod", "controller"):
                exemptions.at(request_operation=operation, resource=resource, subresource="")

    def evaluated(
        self, mode: str, level: tuple[str, str], where: tuple[str, str, str], *, allowed: bool
    ) -> None:
        """`where` has the request's operation, storage resource and subresource."""
        evaluation = mode, level, where, allowed
        series = self._series.get(evaluation)
        if series is None:
            operation, resource, subresource = where
            known = {"pods": "pod", "namespaces": "namespace"}.get(resource, "controller")
            decision = "allow" if allowed else "deny"
            labels = _labels(decision, mode, level, operation.lower(), known, subresource)
            series = self._series[evaluation] = self._evaluations.at(**labels)
        series.value += 1


def _labels(
    decision: str, mode: str, level: tuple[str, str], operation: str, resource: str, subresource: str
) -> dict[str, str]:
    name, version = level
    return {
        "decision": decision,
        "mode": mode,
        "policy_level": name,
        "policy_version": "latest" if name == "privileged" else version,
        "request_operation": operation,
        "resource": resource,
        "subresource": subresource,
    }


class StrategyMetrics:
    """Counts allocations, static (asked for) and dynamic (drawn), and ratcheting."""

    def __init__(self, families: Families) -> None:
        self._addresses = (
            families.counters(f"{_ADDRESSES}_total", "Addresses given to services."),
            families.counters(f"{_ADDRESSES}_errors_total", "Addresses that could not be given."),
        )
        self._ports = (
            families.counters(f"{_PORTS}_total", "Node ports given to services."),
            families.counters(f"{_PORTS}_errors_total", "Node ports that could not be given."),
        )
        self._seconds = families.histograms(
            f"{_ADDRESSES}_duration_seconds", "Seconds of giving an address by range."
        )

        self._ratcheting = families.histograms(
            "apiextensions_apiserver_validation_ratcheting_seconds", "Seconds of comparing for ratcheting."
        ).at()

    def ratcheted(self) -> None:
        """Counts a changed custom resource, whose unchanged parts may be wrong."""
        self._ratcheting.observe(0)

    def address(self, cidr: str, scope: str, *, failed: bool = False, timed: bool = False) -> None:
        self._addresses[failed].at(cidr=cidr, scope=scope).inc()
        if timed and not failed:
            self._seconds.at(cidr=cidr).observe(0)

    def port(self, scope: str, *, failed: bool = False) -> None:
        self._ports[failed].at(scope=scope).inc()


class StepSeries:
    """The histogram has all durations of one step; quantiles are those of the last 1,000."""

    __slots__ = ("_recent", "histogram")

    def __init__(self, histogram: HistogramSeries) -> None:
        self.histogram = histogram
        self._recent: deque[float] = deque(maxlen=_KEPT)

    def observe(self, seconds: float) -> None:
        self.histogram.observe(seconds)
        self._recent.append(seconds)

    def quantiles(self) -> Iterator[tuple[float, float]]:
        """Each quantile comes with its seconds; there are none before the first step."""
        ordered = sorted(self._recent)
        for quantile in _QUANTILES if ordered else ():
            yield quantile, ordered[int(quantile * len(ordered))]


class AdmissionMetrics:
    """Times the two steps of admission, and the plugins in them."""

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
        found = self._series.get((kind, operation, rejected))
        if found is None:
            histogram = self._steps.at(type=kind, operation=operation, rejected=str(rejected).lower())
            found = self._series[kind, operation, rejected] = StepSeries(histogram)
        return found

    def collect(self) -> "Iterator[Metric]":
        """Called by the registry; yields the summary of steps."""
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
        """Plugins that upstream does not have are nameless and not shown."""
        if not name:
            return HistogramSeries(self._plugins.bounds)
        return self._plugins.at(name=name, type=kind, operation=operation, rejected=str(rejected).lower())


class StoreMetrics:
    """Times the writes of the event store, which stands in for upstream's etcd."""

    def __init__(self, families: Families) -> None:
        self._requests = families.counters("etcd_requests_total", "Writes of the store.")
        self._errors = families.counters("etcd_request_errors_total", "Writes that the store failed.")
        self._seconds = families.histograms("etcd_request_duration_seconds", "Seconds of a write.")
        self._series: dict[tuple[str, str], tuple[NumberSeries, HistogramSeries]] = {}

    def wrote(self, operation: str, storage_resource: str, seconds: float) -> None:
        """Includes writes that the store refused because another one was faster."""
        found = self._series.get((operation, storage_resource))
        if found is None:
            found = self._series[operation, storage_resource] = (
                of_resource(self._requests, storage_resource, operation=operation),
                of_resource(self._seconds, storage_resource, operation=operation),
            )
        found[0].value += 1
        found[1].observe(seconds)

    def failed(self, operation: str, storage_resource: str) -> None:
        of_resource(self._errors, storage_resource, operation=operation).inc()


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

    def render(self, others: "Sequence[Sequence[Metric]]" = ()) -> bytes:
        """Adds what the `others` have counted, the workers of the same server."""
        return exposition(added_up([self.collect(), *others]), self._version)

    def collect(self) -> "Sequence[Metric]":
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
        return [*self.registry.collect()]

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

"""Counts lists and watches.

Sources, 1.36: k8s.io/apiserver/pkg/storage/cacher/metrics/metrics.go, pkg/storage/etcd3/metrics/metrics.go,
pkg/endpoints/metrics/metrics.go (watches).
"""

from typing import Protocol, TypeVar

from kubeskew.apimachinery.metrics.series import Families, HistogramSeries, NumberSeries
from kubeskew.apimachinery.resources import Resource

_S = TypeVar("_S", covariant=True)


class ByResource(Protocol[_S]):
    """A family that has a label `resource`."""

    def at(self, **labels: str) -> _S: ...
    def has_label(self, name: str) -> bool: ...


def of_resource(family: ByResource[_S], storage_resource: str, **more: str) -> _S:
    """Returns the series of a resource of the store: without a label `group` its name holds the group."""
    resource, _, group = storage_resource.partition(".")
    return family.at(
        group=group,
        resource=resource if family.has_label("group") else storage_resource,
        resource_prefix=f"/{group}/{resource}" if group else f"/{resource}",
        type=storage_resource,
        **more,
    )


class _Lists:
    """Three counters of lists that one place answers."""

    def __init__(self, families: Families, prefix: str, where: str) -> None:
        self._count = families.counters(f"{prefix}_total", f"Lists answered from {where}.")
        self._fetched = families.counters(
            f"{prefix}_fetched_objects_total", f"Objects that lists from {where} looked at."
        )
        self._returned = families.counters(
            f"{prefix}_returned_objects_total", f"Objects that lists from {where} returned."
        )
        self._series: dict[str, tuple[NumberSeries, NumberSeries, NumberSeries]] = {}

    def count(self, storage_resource: str, fetched: int, returned: int) -> None:
        found = self._series.get(storage_resource)
        if found is None:
            found = self._series[storage_resource] = (
                of_resource(self._count, storage_resource),
                of_resource(self._fetched, storage_resource),
                of_resource(self._returned, storage_resource),
            )
        for series, amount in zip(found, (1, fetched, returned), strict=True):
            series.inc(amount)


class ReadMetrics:
    """Counts lists, by where upstream would answer them from, and what watches send."""

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
        self._watches: dict[tuple[str, str, str], WatchSeries] = {}

    def listed(self, storage_resource: str, fetched: int, returned: int, *, cached: bool) -> None:
        """Counts a list."""
        (self._cached if cached else self._stored).count(storage_resource, fetched, returned)
        if not cached:
            of_resource(self._evaluated, storage_resource).inc(fetched)

    def read_consistently(self, storage_resource: str) -> None:
        """Counts a list of now that the cache answered."""
        of_resource(self._consistent, storage_resource, success="true", fallback="false").inc()

    def waited(self, storage_resource: str, seconds: float) -> None:
        """Counts how long a read waited for the cache."""
        of_resource(self._waited, storage_resource).observe(seconds)

    def watch_listed(self, resource: Resource, scope: str, seconds: float) -> None:
        """Counts a watch that has sent all that there is."""
        self._watch_lists.at(
            group=resource.group, version=resource.version, resource=resource.plural, scope=scope
        ).observe(seconds)

    def begun(self, storage_resource: str, events: int) -> None:
        """Counts the events with which a watch began."""
        if events:
            of_resource(self._initial, storage_resource).inc(events)

    def watch(self, resource: Resource) -> "WatchSeries":
        """Returns what counts the events of a watch."""
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

    __slots__ = ("_count", "_sizes")

    def __init__(self, count: NumberSeries, sizes: HistogramSeries) -> None:
        self._count, self._sizes = count, sizes

    def sent(self, size: int) -> None:
        """Counts an event."""
        self._count.value += 1
        self._sizes.observe(size)

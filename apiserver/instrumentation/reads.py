"""Counts lists and watches.

Sources, 1.36: k8s.io/apiserver/pkg/storage/cacher/metrics/metrics.go, pkg/storage/etcd3/metrics/metrics.go,
pkg/endpoints/metrics/metrics.go (watches).
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from kubeskew.apimachinery.metrics.series import Families, HistogramSeries, NumberSeries
from kubeskew.apimachinery.resources import Resource

_NOTED_MAX = 4_096  # events
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


class Tally:
    """Holds how many lists one place has answered, and how many objects these looked at and returned."""

    __slots__ = ("fetched", "lists", "returned")

    def __init__(self) -> None:
        self.lists = self.fetched = self.returned = 0

    def add(self, fetched: int, returned: int) -> None:
        """Counts a list."""
        self.lists += 1
        self.fetched += fetched
        self.returned += returned

    def plus(self, other: "Tally") -> "Tally":
        """Returns the sum of both."""
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
    """Three counters of lists that one place answers."""

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
        self._lists: dict[str, ListSeries] = {}
        self._watches: dict[tuple[str, str, str], WatchSeries] = {}

    def lists(self, storage_resource: str) -> ListSeries:
        """Returns what counts the lists of a resource."""
        found = self._lists.get(storage_resource)
        if found is None:
            found = self._lists[storage_resource] = ListSeries(HistogramSeries(self._waited.bounds))
        return found

    def filled(self, storage_resource: str, times: int, objects: int) -> None:
        """Takes over how often the watch cache of a resource was filled, each time by a list of the store."""
        filling = self.lists(storage_resource).filling
        filling.lists, filling.fetched, filling.returned = times, objects, objects

    def look(self) -> None:
        """Fills the families from what was noted."""
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

    __slots__ = ("_count", "_noted", "_sizes")

    def __init__(self, count: NumberSeries, sizes: HistogramSeries) -> None:
        self._count, self._sizes = count, sizes
        self._noted: list[int] = []  # bytes of events that are not counted yet

    def sent(self, lines: Sequence[bytes]) -> None:
        """Counts events."""
        self._noted.extend(map(len, lines))
        if len(self._noted) > _NOTED_MAX:
            self.look()

    def look(self) -> None:
        """Counts what was noted."""
        noted, self._noted = self._noted, []
        self._count.value += len(noted)
        for size in noted:
            self._sizes.observe(size)

"""Counts in plain numbers, which become metrics of Prometheus at each scrape.

The library's own series cost more: a histogram of its own is some twenty objects with locks, and an
observation goes through its bounds one by one. These families are counted for every request, item of a queue
or plugin. They are used as the library's: `family.labels("a", "b").inc()`. The `workqueue_*` families say how
long items wait and are worked on, by the queue's name.

Which families upstream's components have at each minor (type, labels, buckets, stability) is in
`apimachinery/data/metrics.json`; its `origin` names the releases. Minors before the first of them are taken
for it, later ones for the last.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import orjson

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.versions import (
    NEWEST_MINOR,
    OLDEST_MINOR,
    Version,
    changes_until,
    entry,
    is_between,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector

_FILE = Path(__file__).parents[1] / "data" / "metrics.json"
# Minors for which a deprecated metric stays, by its stability since 1.35 (133436); "" is any other.
_KEPT_MINORS: Mapping[int, Mapping[str, int]] = {0: {"": 1}, 35: {"STABLE": 3, "BETA": 1, "": 0}}
_S = TypeVar("_S")
_LABELS = ["name"]


class Family(NamedTuple):
    """A family as upstream registers it; `custom` is the type of a family that a collector makes."""

    type: str
    stability: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...]
    deprecated: str

    @property
    def mark(self) -> str:
        """Goes before the help text."""
        since = f" (Deprecated since {self.deprecated})" if self.deprecated else ""
        return f"[{self.stability}]{since}"


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = orjson.loads(_FILE.read_bytes())
    return table


@cache
def _rows(minor: int) -> dict[str, Any]:
    table = _table()
    rows = dict(table["families"])
    for change in changes_until(table["changes"], minor):
        for name in change["gone"]:
            del rows[name]
        rows.update(change["new"])
    return rows


@cache
def families(minor: int) -> dict[str, Family]:
    """Families of a minor that are not hidden."""
    return {name: family for name, family in _known(minor).items() if not _hidden(family, minor)}


@cache
def hidden(minor: int) -> tuple[str, ...]:
    """Names of families that are deprecated and no longer shown (registry.go, shouldHide)."""
    return tuple(name for name, family in _known(minor).items() if _hidden(family, minor))


@cache
def known_names() -> frozenset[str]:
    """Names that a family has at any minor."""
    table = _table()
    return frozenset(
        {*table["families"], *(name for one in table["changes"].values() for name in one["new"])}
    )


def nearest(name: str, minor: int) -> Family:
    """Looks a family up at the minor, or else at the nearest minor that has it."""
    minors = sorted(range(OLDEST_MINOR, NEWEST_MINOR + 1), key=lambda other: abs(other - minor))
    return next(known[name] for known in map(_known, minors) if name in known)


@cache
def _known(minor: int) -> dict[str, Family]:
    buckets = _table()["buckets"]
    return {
        name: Family(
            row["type"],
            row.get("stability", "ALPHA"),
            tuple(row.get("labels", ())),
            tuple(map(float, buckets[row["buckets"]])) if "buckets" in row else (),
            row.get("deprecated", ""),
        )
        for name, row in _rows(minor).items()
    }


def _hidden(family: Family, minor: int) -> bool:
    if not family.deprecated:
        return False
    deprecated = int(family.deprecated.split(".")[1])
    kept = entry(_KEPT_MINORS, minor)
    return is_between(minor, deprecated + kept.get(family.stability, kept[""]), None)


class NumberSeries:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def inc(self, amount: float = 1) -> None:
        self.value += amount


class HistogramSeries:
    """Observations of one set of labels: their numbers up to each bound, and their sum."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # the last: more than all bounds
        self.total: float = 0

    @property
    def bounds(self) -> Sequence[float]:
        return self._bounds

    @property
    def count(self) -> int:
        return sum(self.counts)

    def set_all(self, value: float, count: int) -> None:
        """Replaces all observations by `count` of one value."""
        self.counts = [0] * len(self.counts)
        self.counts[bisect_left(self._bounds, value)] = count
        self.total = value * count

    def copy(self, finer: "HistogramSeries") -> None:
        """Copies the observations of a histogram that has all of these bounds, and more."""
        self.counts = [0] * len(self.counts)
        for bound, count in zip((*finer.bounds, math.inf), finer.counts, strict=True):
            self.counts[bisect_left(self._bounds, bound)] += count
        self.total = finer.total

    def add_up(self, others: "Sequence[HistogramSeries]") -> None:
        """Replaces all observations by those of others with the same bounds."""
        self.counts = [sum(counts) for counts in zip(*(other.counts for other in others), strict=True)]
        self.total = sum(other.total for other in others)

    def add(self, other: "HistogramSeries") -> None:
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    def observe_times(self, value: float, times: int) -> None:
        self.counts[bisect_left(self._bounds, value)] += times
        self.total += value * times

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class _Family(ABC, Generic[_S]):
    """The series of one name, by the values of their labels."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], registry: "CollectorRegistry | None" = None
    ) -> None:
        self._about = (name, text)
        self._labels = tuple(labels)
        self._series: dict[tuple[str, ...], _S] = {}
        if registry is not None:
            registry.register(self)

    def labels(self, *values: str) -> _S:
        """Begins the series of these values if it is new."""
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = self._begun()
        return series

    def at(self, **labels: str) -> _S:
        """Labels that the family does not have are ignored, and those that are not given are empty."""
        return self.labels(*(labels.get(name, "") for name in self._labels))

    def clear(self) -> None:
        """Removes all series, because their objects may be gone."""
        self._series.clear()

    def has_label(self, name: str) -> bool:
        return name in self._labels

    def describe(self) -> "Iterator[Metric]":
        """Yields the family without its series, for the registry."""
        yield self._family({})

    def collect(self) -> "Iterator[Metric]":
        """Yields the family, for the registry."""
        yield self._family(self._series)

    @abstractmethod
    def _begun(self) -> _S: ...

    @abstractmethod
    def _family(self, series: Mapping[tuple[str, ...], _S]) -> "Metric": ...


class _Numbers(_Family[NumberSeries]):
    def _begun(self) -> NumberSeries:
        return NumberSeries()

    def _family(self, series: Mapping[tuple[str, ...], NumberSeries]) -> "Metric":
        family = self._empty()
        for values, found in series.items():
            family.add_metric(values, found.value)
        return family

    @abstractmethod
    def _empty(self) -> "CounterMetricFamily | GaugeMetricFamily": ...


class Counters(_Numbers):
    """Numbers that only grow; the library appends `_total` to their name."""

    def _empty(self) -> "CounterMetricFamily":
        from prometheus_client.core import CounterMetricFamily

        return CounterMetricFamily(*self._about, labels=self._labels)


class Gauges(_Numbers):
    def _empty(self) -> "GaugeMetricFamily":
        from prometheus_client.core import GaugeMetricFamily

        return GaugeMetricFamily(*self._about, labels=self._labels)


class Histograms(_Family[HistogramSeries]):
    def __init__(
        self,
        name: str,
        text: str,
        labels: Sequence[str],
        bounds: Sequence[float],
        registry: "CollectorRegistry | None" = None,
    ) -> None:
        self._bounds = tuple(map(float, bounds))
        super().__init__(name, text, labels, registry)

    @property
    def bounds(self) -> Sequence[float]:
        return self._bounds

    def _begun(self) -> HistogramSeries:
        return HistogramSeries(self._bounds)

    def _family(self, series: Mapping[tuple[str, ...], HistogramSeries]) -> "Metric":
        from prometheus_client.core import HistogramMetricFamily
        from prometheus_client.utils import floatToGoString

        family = HistogramMetricFamily(*self._about, labels=self._labels)
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        for values, found in series.items():
            buckets = list(zip(bounds, accumulate(found.counts), strict=True))
            family.add_metric(values, buckets, found.total)
        return family


class Families:
    """Makes families with the labels and bounds that upstream's have at a minor.

    Those that the minor lacks are made as the nearest minor has them, and never shown.
    """

    def __init__(self, registry: "CollectorRegistry", version: Version) -> None:
        self._registry = registry
        self._minor = version.base.minor

    def counters(self, name: str, text: str) -> Counters:
        """A family without labels has its series from the start, as Go's."""
        family = Counters(name.removesuffix("_total"), text, self._fact(name).labels, self._registry)
        return _begun(family, self._fact(name))

    def gauges(self, name: str, text: str) -> Gauges:
        return _begun(Gauges(name, text, self._fact(name).labels, self._registry), self._fact(name))

    def histograms(self, name: str, text: str) -> Histograms:
        fact = self._fact(name)
        return _begun(Histograms(name, text, fact.labels, fact.buckets, self._registry), fact)

    def collector(self, collects: "Collector") -> None:
        """Registers an object that makes its families itself."""
        self._registry.register(collects)

    def _fact(self, name: str) -> Family:
        return nearest(name, self._minor)


def unseen_families() -> Families:
    """Makes families that nobody reads, for code that counts without a server."""
    from prometheus_client import CollectorRegistry

    return Families(CollectorRegistry(), Version(NEWEST_MINOR))


_F = TypeVar("_F", Counters, Gauges, Histograms)


def _begun(family: _F, fact: Family) -> _F:
    if not fact.labels:
        family.labels()
    return family


class QueueMetrics:
    """The metrics of all queues of a process; queues with the same name share their series."""

    def __init__(self, registry: "CollectorRegistry", clock: Clock) -> None:
        self.clock = clock
        self.meters: dict[str, QueueMeter] = {}  # of each name the newest
        self.adds = Counters("workqueue_adds", "Items added.", _LABELS, registry)
        self.retries = Counters("workqueue_retries", "Items added for later.", _LABELS, registry)
        self.waited = _seconds("workqueue_queue_duration_seconds", "Seconds that items waited.", registry)
        self.worked = _seconds("workqueue_work_duration_seconds", "Seconds of work on an item.", registry)
        registry.register(self)

    def collect(self) -> "Iterator[Metric]":
        """Yields the queues' current items, for the registry."""
        from prometheus_client.core import GaugeMetricFamily

        depth = GaugeMetricFamily("workqueue_depth", "Items that wait.", labels=_LABELS)
        unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds",
            "Seconds that all items in work have taken so far.",
            labels=_LABELS,
        )
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds",
            "Seconds that the item longest in work has taken so far.",
            labels=_LABELS,
        )
        for name, meter in self.meters.items():
            ages = meter.ages()
            depth.add_metric([name], meter.depth)
            unfinished.add_metric([name], sum(ages))
            longest.add_metric([name], max(ages, default=0.0))
        yield from (depth, unfinished, longest)


def _seconds(name: str, text: str, registry: "CollectorRegistry") -> Histograms:
    return Histograms(name, text, _LABELS, nearest(name, NEWEST_MINOR).buckets, registry)


class QueueMeter:
    """The metrics of one queue, which reports the events of its items to it."""

    def __init__(self, metrics: QueueMetrics, name: str) -> None:
        self._clock = metrics.clock
        self._adds, self._retries = metrics.adds.labels(name), metrics.retries.labels(name)
        self._waited, self._worked = metrics.waited.labels(name), metrics.worked.labels(name)
        self._added_at: dict[Hashable, float] = {}
        self._begun_at: dict[Hashable, float] = {}
        metrics.meters[name] = self

    @property
    def depth(self) -> int:
        """Counts the items that wait."""
        return len(self._added_at)

    def ages(self) -> list[float]:
        """Seconds that each item has been in work."""
        now = self._clock.monotonic()
        return [now - begun for begun in self._begun_at.values()]

    def added(self, item: Hashable) -> None:
        self._adds.inc()
        self._added_at.setdefault(item, self._clock.monotonic())

    def begun(self, item: Hashable) -> None:
        now = self._clock.monotonic()
        self._waited.observe(now - self._added_at.pop(item, now))
        self._begun_at[item] = now

    def ended(self, item: Hashable) -> None:
        begun = self._begun_at.pop(item, None)
        if begun is not None:
            self._worked.observe(self._clock.monotonic() - begun)

    def postponed(self) -> None:
        self._retries.inc()

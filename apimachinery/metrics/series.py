"""Counts in plain numbers, which become metrics of Prometheus when somebody looks.

What the library counts costs more: a histogram of its own is some twenty objects with locks, and an
observation goes through its bounds one by one. These families are of what is counted for every request, item
of a queue or plugin. They are used as the library's: `family.labels("a", "b").inc()`.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Generic, TypeVar

from kubeskew.apimachinery.metrics.facts import Family, nearest
from kubeskew.apimachinery.versions import NEWEST_MINOR, Version

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector

_S = TypeVar("_S")


class NumberSeries:
    """Holds the number that one set of labels has."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def inc(self, amount: float = 1) -> None:
        """Adds to the number."""
        self.value += amount


class HistogramSeries:
    """Holds the observations that one set of labels has: how many up to each bound, and their sum."""

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # the last: more than all bounds
        self.total: float = 0

    @property
    def bounds(self) -> Sequence[float]:
        """Returns the upper bounds by which it counts."""
        return self._bounds

    @property
    def count(self) -> int:
        """Returns how many observations there are."""
        return sum(self.counts)

    def set_all(self, value: float, count: int) -> None:
        """Makes it hold so many observations of one value, and nothing else."""
        self.counts = [0] * len(self.counts)
        self.counts[bisect_left(self._bounds, value)] = count
        self.total = value * count

    def copy(self, finer: "HistogramSeries") -> None:
        """Takes over the observations of one that has all of these bounds, and more."""
        self.counts = [0] * len(self.counts)
        for bound, count in zip((*finer.bounds, math.inf), finer.counts, strict=True):
            self.counts[bisect_left(self._bounds, bound)] += count
        self.total = finer.total

    def add_up(self, others: "Sequence[HistogramSeries]") -> None:
        """Makes it hold the observations of others with the same bounds, and nothing else."""
        self.counts = [sum(counts) for counts in zip(*(other.counts for other in others), strict=True)]
        self.total = sum(other.total for other in others)

    def add(self, other: "HistogramSeries") -> None:
        """Adds the observations of another with the same bounds."""
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    def observe_times(self, value: float, times: int) -> None:
        """Adds so many observations of one value."""
        self.counts[bisect_left(self._bounds, value)] += times
        self.total += value * times

    def observe(self, value: float) -> None:
        """Adds an observation."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value


class _Family(ABC, Generic[_S]):
    """Holds the series of one name, by the values of their labels."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], registry: "CollectorRegistry | None" = None
    ) -> None:
        self._about = (name, text)
        self._labels = tuple(labels)
        self._series: dict[tuple[str, ...], _S] = {}
        if registry is not None:
            registry.register(self)

    def labels(self, *values: str) -> _S:
        """Returns the series of these values, which is there from now on."""
        series = self._series.get(values)
        if series is None:
            series = self._series[values] = self._begun()
        return series

    def at(self, **labels: str) -> _S:
        """Returns the series with these labels, of which the family may have fewer; others are empty."""
        return self.labels(*(labels.get(name, "") for name in self._labels))

    def clear(self) -> None:
        """Forgets the series, as those of what may be gone."""
        self._series.clear()

    def has_label(self, name: str) -> bool:
        """Returns whether the family has a label."""
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
    """Holds numbers, whatever kind of metric they are."""

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
    """Holds numbers that only grow; the library appends `_total` to their name."""

    def _empty(self) -> "CounterMetricFamily":
        from prometheus_client.core import CounterMetricFamily

        return CounterMetricFamily(*self._about, labels=self._labels)


class Gauges(_Numbers):
    """Holds numbers that grow and shrink."""

    def _empty(self) -> "GaugeMetricFamily":
        from prometheus_client.core import GaugeMetricFamily

        return GaugeMetricFamily(*self._about, labels=self._labels)


class Histograms(_Family[HistogramSeries]):
    """Holds observations, counted by upper bounds."""

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
        """Returns the upper bounds by which its series count."""
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
        self._minor = version.minor

    def counters(self, name: str, text: str) -> Counters:
        """Returns a family of counters; one without labels has its series from the start, as Go's."""
        family = Counters(name.removesuffix("_total"), text, self._fact(name).labels, self._registry)
        return _begun(family, self._fact(name))

    def gauges(self, name: str, text: str) -> Gauges:
        """Returns a family of gauges."""
        return _begun(Gauges(name, text, self._fact(name).labels, self._registry), self._fact(name))

    def histograms(self, name: str, text: str) -> Histograms:
        """Returns a family of histograms."""
        fact = self._fact(name)
        return _begun(Histograms(name, text, fact.labels, fact.buckets, self._registry), fact)

    def collector(self, collects: "Collector") -> None:
        """Registers what makes its families itself."""
        self._registry.register(collects)

    def _fact(self, name: str) -> Family:
        return nearest(name, self._minor)


def unseen_families() -> Families:
    """Returns the maker of families that nobody reads, for what counts without a server."""
    from prometheus_client import CollectorRegistry

    return Families(CollectorRegistry(), Version(NEWEST_MINOR))


_F = TypeVar("_F", Counters, Gauges, Histograms)


def _begun(family: _F, fact: Family) -> _F:
    if not fact.labels:
        family.labels()
    return family

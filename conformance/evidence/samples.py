"""Reads metrics in Prometheus' text format: values, and histograms with count, sum and buckets."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

_CUMULATIVE = frozenset({"counter", "histogram", "summary"})


@dataclass(frozen=True, slots=True)
class Histogram:
    """Holds the observations of a histogram: how many, their sum, how many up to each bound."""

    count: float = 0.0
    sum: float = 0.0
    buckets: Mapping[float, float] = field(default_factory=dict)  # cumulative, by upper bound

    def since(self, before: "Histogram") -> "Histogram":
        """Returns what was observed after `before`; all of it if the component began anew since."""
        if before.count > self.count:
            return self
        buckets = {bound: count - before.buckets.get(bound, 0.0) for bound, count in self.buckets.items()}
        return Histogram(self.count - before.count, self.sum - before.sum, buckets)

    def quantile(self, share: float) -> float:
        """Returns the estimate that Prometheus' histogram_quantile gives: linear within a bucket.

        NaN without observations; the highest finite bound for what lies above it.
        """
        bounds = sorted(self.buckets)
        if not self.count or not bounds:
            return math.nan
        rank, below, start = share * self.count, 0.0, 0.0
        for bound in bounds:
            count = self.buckets[bound]
            if count >= rank and count > below:
                if math.isinf(bound):
                    return start
                return start + (bound - start) * (rank - below) / (count - below)
            below, start = count, bound if math.isfinite(bound) else start
        return start

    def as_json(self) -> dict[str, Any]:
        """Returns it for expressions: `{count, sum, buckets: {bound: count}}`."""
        buckets = {_bound_text(bound): count for bound, count in sorted(self.buckets.items())}
        return {"count": self.count, "sum": self.sum, "buckets": buckets}


def histogram_of(value: Mapping[str, Any]) -> Histogram:
    """Reads what `as_json` gave."""
    buckets = {float(bound): count for bound, count in value["buckets"].items()}
    return Histogram(value["count"], value["sum"], buckets)


@dataclass(frozen=True, slots=True)
class Measured:
    """Holds what the series of a metric that have some labels come to, added up."""

    known: bool = False  # a component knows the metric, even if it has no series
    kind: str = ""  # gauge, counter, histogram, summary or unknown
    series: int = 0
    value: float = 0.0
    histogram: Histogram | None = None  # only for the name of the family itself

    def since(self, before: float | Histogram) -> "Measured":
        """Returns the change after an earlier reading; of a counter that began anew, all of it."""
        if self.histogram is not None and isinstance(before, Histogram):
            return replace(self, histogram=self.histogram.since(before))
        if isinstance(before, Histogram):
            return self
        restarted = self.kind in _CUMULATIVE and before > self.value
        return self if restarted else replace(self, value=self.value - before)


def measure(texts: Iterable[str], name: str, labels: Mapping[str, str]) -> Measured:
    """Returns what the components' metrics say of `name`, as a sample or as a histogram's family."""
    known, kind, series, value = False, "", 0, 0.0
    total: Histogram | None = None
    about = ("\n".join([*_lines_about(name, text), ""]) for text in texts)
    for family in (family for text in about for family in text_string_to_metric_families(text)):
        # a family without samples is known by its name, with or without the suffix of counters
        named = name in {family.name, f"{family.name}_total"}
        is_family = named and family.type == "histogram"
        total = total or (Histogram() if is_family else None)
        for sample in family.samples:
            if not (sample.name == name or is_family):
                continue
            named = True
            if not labels.items() <= sample.labels.items():
                continue
            if total is None:
                series, value = series + 1, value + sample.value
            else:
                series += sample.name.endswith("_count")
                total = _with_sample(total, sample.name.removeprefix(name), sample.labels, sample.value)
        if named:
            known, kind = True, family.type
    return Measured(known, kind, series, value, total)


def _lines_about(name: str, text: str) -> Iterator[str]:
    """Yields the samples whose names begin with `name`, and what is said of families that may have them.

    To read all of a component's metrics takes far longer.
    """
    for line in text.splitlines():
        if not line.startswith("#"):
            if line.startswith(name):
                yield line
            continue
        family = "".join(line.split(maxsplit=3)[2:3])
        if name.startswith(family) or family.startswith(name):
            yield line


def _with_sample(total: Histogram, suffix: str, labels: Mapping[str, str], value: float) -> Histogram:
    if suffix == "_bucket":
        bound = float(labels["le"])
        return replace(total, buckets={**total.buckets, bound: total.buckets.get(bound, 0.0) + value})
    if suffix == "_count":
        return replace(total, count=total.count + value)
    return replace(total, sum=total.sum + value) if suffix == "_sum" else total


def _bound_text(bound: float) -> str:
    return "+Inf" if math.isinf(bound) else f"{bound:g}"

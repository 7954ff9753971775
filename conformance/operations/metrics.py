"""`metric` waits until metrics of components have certain values, and `observe` notes values for the report.

Metrics are read in Prometheus' text format: values, and histograms with count, sum and buckets.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.conformance.bindings import bind, evaluate
from kubeskew.conformance.chainsaw import expression, seconds
from kubeskew.conformance.context import CellContext, bind_outputs
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.operations.waits import POLL_SECONDS, Selection, find
from kubeskew.conformance.scenario import Operation

_CUMULATIVE = frozenset({"counter", "histogram", "summary"})
_BOUNDS = ("value", "atLeast", "atMost")
_PARTS = ("count", "sum", "buckets", "quantiles")

Wanted = list[tuple[str, Mapping[str, float]]]  # name of a part, and its bounds


@dataclass(frozen=True, slots=True)
class Histogram:
    """Holds the observations of a histogram: their number, their sum, and the number up to each bound."""

    count: float = 0.0
    sum: float = 0.0
    buckets: Mapping[float, float] = field(default_factory=dict)  # cumulative, by upper bound

    def since(self, before: "Histogram") -> "Histogram":
        """A component that was started again counts from zero: then all observations are new."""
        if before.count > self.count:
            return self
        buckets = {bound: count - before.buckets.get(bound, 0.0) for bound, count in self.buckets.items()}
        return Histogram(self.count - before.count, self.sum - before.sum, buckets)

    def quantile(self, share: float) -> float:
        """Estimates as Prometheus' histogram_quantile does: linearly within a bucket.

        It is NaN without observations; above the highest finite bound, it is that bound.
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
        """Expressions read `{count, sum, buckets: {bound: count}}`."""
        buckets = {_bound_text(bound): count for bound, count in sorted(self.buckets.items())}
        return {"count": self.count, "sum": self.sum, "buckets": buckets}


def histogram_of(value: Mapping[str, Any]) -> Histogram:
    buckets = {float(bound): count for bound, count in value["buckets"].items()}
    return Histogram(value["count"], value["sum"], buckets)


@dataclass(frozen=True, slots=True)
class Measured:
    """Sums over the series of a metric that have some labels."""

    known: bool = False  # a component knows the metric, even if it has no series
    kind: str = ""  # gauge, counter, histogram, summary or unknown
    series: int = 0
    value: float = 0.0
    histogram: Histogram | None = None  # only for the name of the family itself

    def since(self, before: float | Histogram) -> "Measured":
        """A counter that was started again counts from zero: then all of it is the change."""
        if self.histogram is not None and isinstance(before, Histogram):
            return replace(self, histogram=self.histogram.since(before))
        if isinstance(before, Histogram):
            return self
        restarted = self.kind in _CUMULATIVE and before > self.value
        return self if restarted else replace(self, value=self.value - before)


def measure(texts: Iterable[str], name: str, labels: Mapping[str, str]) -> Measured:
    """`name` is that of a sample or of a histogram's family."""
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
    """Picks the samples whose names begin with `name`, and the comments of families that may have them.

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


async def metric(ctx: CellContext, operation: Operation) -> None:
    """Wait until a metric of a component, or of several together, has a value.

    `metric: {component: scheduler, name: scheduler_pending_pods, labels: {queue: active}, value: 0}`; instead
    of `value`, `atLeast` and `atMost` bound it. Series with the labels are added up; none is 0 as long as the
    component knows the metric at all, and `absent: true` wants none. Of a histogram `count`, `sum`, `buckets:
    {"0.5": …}` and `quantiles: {"0.99": …}` are bound, by a number or by `{atLeast, atMost}`. `outputs` bind
    the value as `(@)`: a number, or `{count, sum, buckets}`; `since: ($name)` compares the change from such a
    reading. `path` is `/metrics` unless given.
    """
    body = bind({k: v for k, v in operation.body.items() if k != "outputs"}, ctx.bindings)
    wanted = [*_wanted(body, f"{operation.where}.metric")]
    before = _before(body, f"{operation.where}.metric")
    limit = seconds(body["timeout"], operation.where) if "timeout" in body else ctx.timeout("assert")
    deadline = ctx.clock.monotonic() + limit
    while True:
        measured, lacking = await _read(ctx, body)
        if not lacking:
            if any((what == "") != (measured.histogram is None) for what, _ in wanted):
                raise _misfit(measured, body, operation)
            change = measured if before is None else measured.since(before)
            lacking = _out_of_bounds(change, wanted, absent=bool(body.get("absent")))
        if not lacking:
            value = _note(ctx, change)
            bind_outputs(ctx, operation, value if before is None else _reading(measured))
            return
        if ctx.clock.monotonic() > deadline:
            if measured.known:
                _note(ctx, measured if before is None else measured.since(before))
            raise StepError(_expectation(body, wanted), lacking)
        await ctx.clock.sleep(POLL_SECONDS)


def _note(ctx: CellContext, measured: Measured) -> Any:
    """Keeps the value for the report, which may hold it against that of another run."""
    value = _reading(measured)
    if ctx.outcome is not None:
        ctx.outcome.value = value
    return value


def _reading(measured: Measured) -> Any:
    return measured.value if measured.histogram is None else measured.histogram.as_json()


def _components(body: Mapping[str, Any]) -> list[str]:
    given = body["component"]
    return [given] if isinstance(given, str) else list(given)


async def _read(ctx: CellContext, body: Mapping[str, Any]) -> tuple[Measured, str]:
    """The text is the reason that nothing could be read, or empty."""
    try:
        texts = await ctx.control.metrics(_components(body), body.get("path", "/metrics"))
    except CONNECTION_ERRORS as error:
        return Measured(), f"no answer: {error}"
    measured = measure(texts.values(), body["name"], body.get("labels") or {})
    if not measured.known and not body.get("absent"):
        return measured, f"no metric {body['name']}"
    return measured, ""


def _wanted(body: Mapping[str, Any], where: str) -> Iterator[tuple[str, Mapping[str, float]]]:
    """An empty name bounds the value itself, others a part of the histogram."""
    value = {key: body[key] for key in _BOUNDS if key in body}
    if value:
        yield "", _bounds(value, where)
    for part in ("count", "sum"):
        if part in body:
            yield part, _bounds(body[part], f"{where}.{part}")
    for part in ("buckets", "quantiles"):
        for key, bounds in (body.get(part) or {}).items():
            try:
                float(key)
            except ValueError:
                raise ScenarioError(f"{where}.{part}: expected numbers as keys, found {key!r}") from None
            yield f"{part} {key}", _bounds(bounds, f"{where}.{part}.{key}")


def _bounds(value: Any, where: str) -> Mapping[str, float]:
    bounds = value if isinstance(value, dict) else {"value": value}
    wrong = [name for name, bound in bounds.items() if isinstance(bound, bool | str) or name not in _BOUNDS]
    if wrong or not bounds or not all(isinstance(bound, int | float) for bound in bounds.values()):
        raise ScenarioError(f"{where}: expected a number, or a mapping of numbers to {', '.join(_BOUNDS)}")
    return bounds


def _before(body: Mapping[str, Any], where: str) -> float | Histogram | None:
    before = body.get("since")
    if before is None:
        return None
    if isinstance(before, dict) and before.keys() >= {"count", "sum", "buckets"}:
        return histogram_of(before)
    if isinstance(before, bool) or not isinstance(before, int | float):
        raise ScenarioError(f"{where}.since: expected what `outputs` of a metric bound, found {before!r}")
    return float(before)


def _misfit(measured: Measured, body: Mapping[str, Any], operation: Operation) -> ScenarioError:
    name, where = body["name"], f"{operation.where}.metric"
    if measured.histogram is None:
        return ScenarioError(f"{where}: {name} is no histogram, but of type {measured.kind}: bound its value")
    return ScenarioError(f"{where}: {name} is a histogram: bound its {', '.join(_PARTS)}")


def _out_of_bounds(measured: Measured, wanted: Wanted, *, absent: bool) -> str:
    """The text is empty if nothing differs."""
    if absent:
        return f"{measured.series} series, {measured.value:g} together" if measured.series else ""
    found = []
    for what, bounds in wanted:
        value = _value_of(measured, what)
        within = bounds.get("atLeast", -math.inf) <= value <= bounds.get("atMost", math.inf)
        if not within or value != bounds.get("value", value):
            found.append(f"{what} {value:g}".strip())
    return ", ".join(found)


def _value_of(measured: Measured, what: str) -> float:
    histogram = measured.histogram
    if histogram is None or not what:
        return measured.value
    part, _, key = what.partition(" ")
    if part == "buckets":
        return histogram.buckets.get(float(key), math.nan)
    return histogram.quantile(float(key)) if part == "quantiles" else float(getattr(histogram, part))


def _expectation(body: Mapping[str, Any], wanted: Wanted) -> str:
    labels = ",".join(f'{key}="{value}"' for key, value in (body.get("labels") or {}).items())
    bounds = [
        " ".join(filter(None, (what, name, f"{bound:g}")))
        for what, of in wanted
        for name, bound in of.items()
    ]
    name = f"{body['name']}{{{labels}}} of {', '.join(_components(body))}"
    if body.get("absent"):
        return f"no series {name}"
    change = " to have changed by " if body.get("since") is not None else " to have "
    return f"{name}{change}{' and '.join(bounds) or 'a value'}"


async def observe(ctx: CellContext, operation: Operation) -> None:
    """Note something for the report, whatever it is.

    `observe: {name: what the user sees, apiVersion: v1, kind: Pod, selector: {app: a}, value: (…)}`: the
    expression is of the list of objects found, as they are at the moment. `node: n` instead of a kind finds
    the claims (`namespace/name`) whose devices that node's kubelet holds prepared.
    """
    body = dict(operation.body)
    text = expression(body.pop("value", None))
    if text is None or not body.get("name"):
        raise ScenarioError(f"{operation.where}.observe: expected `name`, and `value` with an expression")
    target = bind(body, ctx.bindings)
    found: list[Any] = []
    if "node" in target:
        claims = (await ctx.control.prepared()).get(target["node"], [])
        found = list(dict.fromkeys(f"{claim.namespace}/{claim.name}" for claim in claims))
    elif "kind" in target:
        ref = await ctx.kinds.ref(target["apiVersion"], target["kind"])
        found = await find(ctx, ref, _selection(ctx, target))
    ctx.observations[target["name"]] = evaluate(text, ctx.bindings, found)


def _selection(ctx: CellContext, target: dict[str, Any]) -> Selection:
    name, labels = target.get("object", ""), target.get("selector") or {}
    namespace = target.get("namespace", ctx.namespace)
    return Selection(target["apiVersion"], target["kind"], namespace, name, labels)

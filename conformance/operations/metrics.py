"""`metric`: whether components' metrics have the values that they should have."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.conformance.bindings import bind
from kubeskew.conformance.context import CellContext
from kubeskew.conformance.durations import seconds
from kubeskew.conformance.errors import ScenarioError, StepError
from kubeskew.conformance.evidence.samples import Histogram, Measured, histogram_of, measure
from kubeskew.conformance.operations.outputs import bind_outputs
from kubeskew.conformance.operations.waiting import POLL_SECONDS
from kubeskew.conformance.scenario import Operation

_BOUNDS = ("value", "atLeast", "atMost")
_PARTS = ("count", "sum", "buckets", "quantiles")

Wanted = list[tuple[str, Mapping[str, float]]]  # what, and its bounds


async def metric(ctx: CellContext, operation: Operation) -> None:
    """Wait until a metric of a component, or of several together, has a value.

    `metric: {component: scheduler, name: scheduler_pending_pods, labels: {queue: active}, value: 0}`; instead
    of `value`, `atLeast` and `atMost` bound it. Series with the labels are added up; none is 0 as long as the
    component knows the metric at all, and `absent: true` wants none. Of a histogram `count`, `sum`,
    `buckets: {"0.5": …}` and `quantiles: {"0.99": …}` are bound, by a number or by `{atLeast, atMost}`.
    `outputs` bind what was read as `(@)`: a number, or `{count, sum, buckets}`; `since: ($name)` compares the
    change from such a reading. `path` is `/metrics` unless given.
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
            histogram = measured.histogram
            bind_outputs(ctx, operation, measured.value if histogram is None else histogram.as_json())
            return
        if ctx.clock.monotonic() > deadline:
            raise StepError(_expectation(body, wanted), lacking)
        await ctx.clock.sleep(POLL_SECONDS)


def _components(body: Mapping[str, Any]) -> list[str]:
    given = body["component"]
    return [given] if isinstance(given, str) else list(given)


async def _read(ctx: CellContext, body: Mapping[str, Any]) -> tuple[Measured, str]:
    """Returns what is measured, or what keeps us from having it."""
    try:
        texts = await ctx.control.metrics(_components(body), body.get("path", "/metrics"))
    except CONNECTION_ERRORS as error:
        return Measured(), f"no answer: {error}"
    measured = measure(texts.values(), body["name"], body.get("labels") or {})
    if not measured.known and not body.get("absent"):
        return measured, f"no metric {body['name']}"
    return measured, ""


def _wanted(body: Mapping[str, Any], where: str) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Yields what is bound: nothing for the value itself, else a part of the histogram."""
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
    """Returns what differs from what is wanted; empty if nothing does."""
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

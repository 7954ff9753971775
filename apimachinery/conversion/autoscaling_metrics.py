"""Converts metrics and behaviour of autoscalers to the shapes of autoscaling/v1's annotations, and back.

The annotations hold metrics in v1 shapes, and the behaviour with Go's names of the internal type.

Source: pkg/apis/autoscaling/v1/conversion.go, 1.36.
"""

from collections.abc import Callable
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity, QuantityError

_ZERO = "0"
_SOURCES = ("object", "pods", "resource", "containerResource", "external")


def _present(**fields: Any) -> Object:
    """Returns the given fields without those that are empty."""
    return {name: value for name, value in fields.items() if value is not None}


def _reference(one: Object) -> Object:
    found = {"kind": one.get("kind") or "", "name": one.get("name") or ""}
    return {**found, "apiVersion": one["apiVersion"]} if one.get("apiVersion") else found


def _object(source: Object, measured: str) -> Object:
    amount, metric = (
        source.get("target" if measured == "target" else "current") or {},
        source.get("metric") or {},
    )
    return {
        "target": _reference(source.get("describedObject") or {}),
        "metricName": metric.get("name") or "",
        f"{measured}Value": amount.get("value") or _ZERO,
        **_present(selector=metric.get("selector"), averageValue=amount.get("averageValue")),
    }


def _pods(source: Object, measured: str) -> Object:
    amount, metric = source.get(measured) or {}, source.get("metric") or {}
    return {
        "metricName": metric.get("name") or "",
        f"{measured}AverageValue": amount.get("averageValue") or _ZERO,
        **_present(selector=metric.get("selector")),
    }


def _resource(source: Object, measured: str) -> Object:
    amount = source.get(measured) or {}
    value = amount.get("averageValue")
    if value is None and measured == "current":
        value = _ZERO
    fields = {
        f"{measured}AverageUtilization": amount.get("averageUtilization"),
        f"{measured}AverageValue": value,
        "container": source.get("container"),
    }
    return {"name": source.get("name") or "", **_present(**fields)}


def _external(source: Object, measured: str) -> Object:
    amount, metric = source.get(measured) or {}, source.get("metric") or {}
    value = amount.get("value")
    if value is None and measured == "current":
        value = _ZERO
    return {
        "metricName": metric.get("name") or "",
        **_present(metricSelector=metric.get("selector")),
        **_present(**{f"{measured}Value": value, f"{measured}AverageValue": amount.get("averageValue")}),
    }


_TO_V1: dict[str, Callable[[Object, str], Object]] = {
    "object": _object,
    "pods": _pods,
    "resource": _resource,
    "containerResource": _resource,
    "external": _external,
}


def metric_to_v1(metric: Object, measured: str) -> Object:
    """Returns a MetricSpec (`measured` is `target`) or a MetricStatus (`current`) of v2 in v1's shape."""
    found: Object = {"type": metric.get("type") or ""}
    for name in _SOURCES:
        if metric.get(name) is not None:
            found[name] = _TO_V1[name](metric[name], measured)
    return found


def metric_to_v2(metric: Object, measured: str, *, zero_values: bool = False) -> Object:
    """Returns a metric of v1 in v2's shape; raises AttributeError if the annotation's JSON has another
    shape.

    v1 has no object metric without a value: beside an average, 0 stands for none, but with `zero_values`.
    """
    found: Object = {"type": metric.get("type") or ""}
    for name in _SOURCES:
        if metric.get(name) is not None:
            found[name] = _source_to_v2(name, metric[name], measured, zero_values)
    return found


def _is_zero(value: Any) -> bool:
    """Returns whether an amount is zero; one that cannot be read is none, and is refused later."""
    try:
        return Quantity.of(value).is_zero()
    except QuantityError:
        return False


def _source_to_v2(name: str, source: Object, measured: str, zero_values: bool) -> Object:
    average = source.get(f"{measured}AverageValue")
    value = source.get(f"{measured}Value")
    if name == "object":
        average, value = source.get("averageValue"), value or _ZERO
        if average is not None and measured == "target" and not zero_values and _is_zero(value):
            value = None
        kind = "Value" if average is None else "AverageValue"
    elif name == "external":
        kind = "AverageValue" if value is None else "Value"
    else:
        kind = "Utilization" if source.get(f"{measured}AverageUtilization") is not None else "AverageValue"
    utilization = source.get(f"{measured}AverageUtilization")
    amount = _present(value=value, averageValue=average, averageUtilization=utilization)
    if measured == "target":
        amount = {"type": kind, **amount}
    if name in {"resource", "containerResource"}:
        return {
            "name": source.get("name") or "",
            measured: amount,
            **_present(container=source.get("container")),
        }
    selector = source.get("metricSelector" if name == "external" else "selector")
    found = {"metric": {"name": source.get("metricName") or "", **_present(selector=selector)}}
    if name == "object":
        found["describedObject"] = _reference(source.get("target") or {})
    return {**found, measured: amount}


_RULES = ("stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance")


def _go_name(name: str) -> str:
    return name[:1].upper() + name[1:]


def behaviour_to_annotation(behaviour: Object) -> Object:
    return {_go_name(side): _rules(behaviour.get(side)) for side in ("scaleUp", "scaleDown")}


def _rules(rules: Object | None) -> Object | None:
    if rules is None:
        return None
    found: Object = {_go_name(name): rules.get(name) for name in _RULES}
    found["Policies"] = [
        {
            "Type": policy.get("type"),
            "Value": policy.get("value"),
            "PeriodSeconds": policy.get("periodSeconds"),
        }
        for policy in rules.get("policies") or []
    ] or None
    return found


def behaviour_from_annotation(value: Any) -> Any:
    """Returns the behaviour in an annotation. Go reads names in any case, as older servers wrote them."""
    if isinstance(value, dict):
        return {
            name[:1].lower() + name[1:]: behaviour_from_annotation(item)
            for name, item in value.items()
            if item is not None
        }
    return [behaviour_from_annotation(item) for item in value] if isinstance(value, list) else value

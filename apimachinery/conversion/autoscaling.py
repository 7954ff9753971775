"""Converts HorizontalPodAutoscaler between autoscaling/v1 and v2. The v2 shape is the common one.

v1 has one metric, the CPU; annotations hold what it has no field for: metrics in v1 shapes, and the behaviour
with Go's names of the internal type.

Source: pkg/apis/autoscaling/v1/conversion.go, 1.36.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity, QuantityError

_ZERO = "0"
_SOURCES = ("object", "pods", "resource", "containerResource", "external")
_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_CURRENT = "autoscaling.alpha.kubernetes.io/current-metrics"
_CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"
_BEHAVIOUR = "autoscaling.alpha.kubernetes.io/behavior"


def _present(**fields: Any) -> Object:
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
    """Converts a MetricSpec (`measured` is `target`) or a MetricStatus (`current`)."""
    found: Object = {"type": metric.get("type") or ""}
    for name in _SOURCES:
        if metric.get(name) is not None:
            found[name] = _TO_V1[name](metric[name], measured)
    return found


def metric_to_v2(metric: Object, measured: str, *, zero_values: bool = False) -> Object:
    """Converts a metric; raises AttributeError if the annotation's JSON has another shape.

    v1 has no object metric without a value: next to an average, 0 stands for none, but with `zero_values`.
    """
    found: Object = {"type": metric.get("type") or ""}
    for name in _SOURCES:
        if metric.get(name) is not None:
            found[name] = _source_to_v2(name, metric[name], measured, zero_values)
    return found


def _is_zero(value: Any) -> bool:
    """False for an amount that cannot be read; it is refused later."""
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
    """Go reads names in any case, as older servers wrote them."""
    if isinstance(value, dict):
        return {
            name[:1].lower() + name[1:]: behaviour_from_annotation(item)
            for name, item in value.items()
            if item is not None
        }
    return [behaviour_from_annotation(item) for item in value] if isinstance(value, list) else value


def _is_cpu(metric: Object) -> bool:
    return metric.get("type") == "Resource" and (metric.get("resource") or {}).get("name") == "cpu"


def _utilization(metric: Object, measured: str) -> Any:
    return (metric["resource"].get(measured) or {}).get("averageUtilization")


def _take(annotations: dict[str, str], key: str) -> Any:
    """Removes an annotation and returns its value; None if it is absent or unreadable."""
    text = annotations.pop(key, None)
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return None


def _take_metrics(
    annotations: dict[str, str], key: str, measured: str, *, zero_values: bool = False
) -> list[Object]:
    found = _take(annotations, key)
    try:
        return [metric_to_v2(metric, measured, zero_values=zero_values) for metric in found or []]
    except (AttributeError, TypeError):
        return []


def to_v2(obj: Object, *, zero_values: bool = False) -> None:
    spec, status = obj.setdefault("spec", {}), obj.setdefault("status", {})
    annotations = dict((obj.get("metadata") or {}).get("annotations") or {})
    metrics = _take_metrics(annotations, _METRICS, "target", zero_values=zero_values)
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    if metrics:
        spec["metrics"] = metrics
    behaviour = _take(annotations, _BEHAVIOUR)
    if isinstance(behaviour, dict):
        spec["behavior"] = behaviour_from_annotation(behaviour)
    current_percent = status.pop("currentCPUUtilizationPercentage", None)
    current = _take_metrics(annotations, _CURRENT, "current")
    if not current and current_percent is not None:
        amount = {"averageUtilization": current_percent}
        current = [{"type": "Resource", "resource": {"name": "cpu", "current": amount}}]
    if current:
        status["currentMetrics"] = current
    conditions = _take(annotations, _CONDITIONS)
    if isinstance(conditions, list) and conditions:
        status["conditions"] = conditions
    _keep_annotations(obj, annotations)


def from_v2(obj: Object) -> None:
    spec, status = obj.setdefault("spec", {}), obj.setdefault("status", {})
    annotations = dict((obj.get("metadata") or {}).get("annotations") or {})
    for key in (_METRICS, _CURRENT, _CONDITIONS, _BEHAVIOUR):
        annotations.pop(key, None)
    metrics, current = spec.pop("metrics", None) or [], status.pop("currentMetrics", None) or []
    first = next(filter(_is_cpu, metrics), None)
    if first is not None and _utilization(first, "target") is not None:
        spec["targetCPUUtilizationPercentage"] = _utilization(first, "target")
    for metric in filter(_is_cpu, current):
        if _utilization(metric, "current") is not None:
            status["currentCPUUtilizationPercentage"] = _utilization(metric, "current")
    others = [
        metric for metric in metrics if not (_is_cpu(metric) and _utilization(metric, "target") is not None)
    ]
    behaviour = spec.pop("behavior", None)
    kept = {
        _METRICS: [metric_to_v1(metric, "target") for metric in others],
        _CURRENT: [metric_to_v1(metric, "current") for metric in current],
        _CONDITIONS: status.pop("conditions", None),
        _BEHAVIOUR: None if behaviour is None else behaviour_to_annotation(behaviour),
    }
    written = {key: json.dumps(value, separators=(",", ":")) for key, value in kept.items() if value}
    _keep_annotations(obj, {**annotations, **written})


def _keep_annotations(obj: Object, annotations: dict[str, str]) -> None:
    metadata = obj.setdefault("metadata", {})
    if annotations:
        metadata["annotations"] = annotations
    else:
        metadata.pop("annotations", None)


_V1 = ("autoscaling", "v1", "HorizontalPodAutoscaler")
CONVERTERS = {_V1: (to_v2, from_v2)}
# They give each object metric of v1 a value in v2 (known bug 137856).
CONVERTERS_WITH_ZEROS = {_V1: (partial(to_v2, zero_values=True), from_v2)}

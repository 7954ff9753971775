"""Converts HorizontalPodAutoscaler between autoscaling/v1 and v2. The v2 shape is the common one.

v1 has one metric, the CPU; annotations hold what it has no field for.

Source: pkg/apis/autoscaling/v1/conversion.go, 1.36.
"""

import json
from functools import partial
from typing import Any

from kubeskew.apimachinery.conversion.autoscaling_metrics import (
    behaviour_from_annotation,
    behaviour_to_annotation,
    metric_to_v1,
    metric_to_v2,
)
from kubeskew.apimachinery.objects import Object

_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_CURRENT = "autoscaling.alpha.kubernetes.io/current-metrics"
_CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"
_BEHAVIOUR = "autoscaling.alpha.kubernetes.io/behavior"


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

"""HorizontalPodAutoscaler autoscaling/v1 and v2. The v2 shape is the common one.

v1 has one metric, the CPU; what it cannot hold travels in annotations.
Source: pkg/apis/autoscaling/v1/conversion.go.
"""

import json
from typing import Any

from apimachinery.errors import Object

_METRICS = "autoscaling.alpha.kubernetes.io/metrics"
_CURRENT = "autoscaling.alpha.kubernetes.io/current-metrics"
_CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"
_BEHAVIOUR = "autoscaling.alpha.kubernetes.io/behavior"


def _is_cpu(metric: Object, field: str) -> bool:
    amount = (metric.get("resource") or {}).get(field) or {}
    return (
        metric.get("type") == "Resource"
        and metric["resource"].get("name") == "cpu"
        and amount.get("averageUtilization") is not None
    )


def _take(annotations: dict[str, str], key: str) -> Any:
    """The value of an annotation, which goes; None if it is absent or unreadable."""
    text = annotations.pop(key, None)
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return None


def to_v2(obj: Object) -> None:
    spec, status = obj.setdefault("spec", {}), obj.setdefault("status", {})
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    percent = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = _take(annotations, _METRICS) or []
    if percent is not None:
        target = {"type": "Utilization", "averageUtilization": percent}
        metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}, *metrics]
    if metrics:
        spec["metrics"] = metrics
    behaviour = _take(annotations, _BEHAVIOUR)
    if behaviour is not None:
        spec["behavior"] = behaviour
    current_percent = status.pop("currentCPUUtilizationPercentage", None)
    current = _take(annotations, _CURRENT) or []
    if current_percent is not None:
        amount = {"averageUtilization": current_percent, "averageValue": "0"}
        current = [{"type": "Resource", "resource": {"name": "cpu", "current": amount}}, *current]
    if current:
        status["currentMetrics"] = current
    conditions = _take(annotations, _CONDITIONS)
    if conditions:
        status["conditions"] = conditions
    _keep_annotations(obj, annotations)


def from_v2(obj: Object) -> None:
    spec, status = obj.setdefault("spec", {}), obj.setdefault("status", {})
    annotations = dict((obj.get("metadata") or {}).get("annotations") or {})
    rest = []
    for metric in spec.pop("metrics", None) or []:
        if _is_cpu(metric, "target") and "targetCPUUtilizationPercentage" not in spec:
            spec["targetCPUUtilizationPercentage"] = metric["resource"]["target"]["averageUtilization"]
        else:
            rest.append(metric)
    current = []
    for metric in status.pop("currentMetrics", None) or []:
        if _is_cpu(metric, "current") and "currentCPUUtilizationPercentage" not in status:
            status["currentCPUUtilizationPercentage"] = metric["resource"]["current"]["averageUtilization"]
        else:
            current.append(metric)
    kept = {
        _METRICS: rest,
        _CURRENT: current,
        _CONDITIONS: status.pop("conditions", None),
        _BEHAVIOUR: spec.pop("behavior", None),
    }
    annotations.update(
        {key: json.dumps(value, separators=(",", ":")) for key, value in kept.items() if value}
    )
    _keep_annotations(obj, annotations)


def _keep_annotations(obj: Object, annotations: dict[str, str]) -> None:
    metadata = obj.setdefault("metadata", {})
    if annotations:
        metadata["annotations"] = annotations
    else:
        metadata.pop("annotations", None)


CONVERTERS = {("autoscaling", "v1", "HorizontalPodAutoscaler"): (to_v2, from_v2)}

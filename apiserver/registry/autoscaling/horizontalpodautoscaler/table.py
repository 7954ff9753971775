"""Makes the cells that `kubectl get` shows of HorizontalPodAutoscaler objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apimachinery.conversion import convert
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apiserver.registry.tables.subjects import NONE, UNKNOWN, UNSET, Cells, Subject, at, quantity

_V2 = GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler")

_SHOWN = 2  # metrics

_SOURCES = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def horizontal_pod_autoscaler(subject: Subject) -> Cells:
    scaler = Subject(convert(subject.obj, _V2), subject.now)
    target = ("spec", "scaleTargetRef")
    least = scaler.at("spec", "minReplicas")
    return {
        "Reference": f"{scaler.text(*target, 'kind')}/{scaler.text(*target, 'name')}",
        "Targets": _targets(scaler.items("spec", "metrics"), scaler.items("status", "currentMetrics")),
        "MinPods": UNSET if least is None else str(least),
        "MaxPods": scaler.number("spec", "maxReplicas"),
        "Replicas": scaler.number("status", "currentReplicas"),
    }


def _targets(metrics: list[Object], currents: list[Object]) -> str:
    if not metrics:
        return NONE
    # Upstream pairs them by position, whatever their names.
    paired = [
        _metric(metric, currents[position] if position < len(currents) else {})
        for position, metric in enumerate(metrics)
    ]
    text = ", ".join(paired[:_SHOWN])
    return f"{text} + {len(paired) - _SHOWN} more..." if len(paired) > _SHOWN else text


def _metric(metric: Object, status: Object) -> str:
    source = _SOURCES.get(metric.get("type", ""))
    if source is None:
        return "<unknown type>"
    target = at(metric, source, "target") or {}
    current = at(status, source, "current")
    if source in ("resource", "containerResource"):
        return f"{at(metric, source, 'name') or ''}: {_resource(target, current)}"
    if source == "pods":
        return f"{_amount(current, 'averageValue')}/{quantity(target.get('averageValue'))}"
    if target.get("averageValue") is not None:
        known = current if at(current, "averageValue") is not None else None
        return f"{_amount(known, 'averageValue')}/{quantity(target['averageValue'])} (avg)"
    return f"{_amount(current, 'value')}/{quantity(target.get('value'))}"


def _resource(target: Object, current: Object | None) -> str:
    if target.get("averageValue") is not None:
        return f"{_amount(current, 'averageValue')}/{quantity(target['averageValue'])}"
    used, wanted = at(current, "averageUtilization"), target.get("averageUtilization")
    return f"{_percent(used, UNKNOWN)}/{_percent(wanted, '<auto>')}"


def _amount(current: Object | None, name: str) -> str:
    """Returns the current amount; a metric that is known but lacks it counts as zero."""
    return UNKNOWN if current is None else quantity(current.get(name))


def _percent(value: int | None, default: str) -> str:
    return default if value is None else f"{value}%"

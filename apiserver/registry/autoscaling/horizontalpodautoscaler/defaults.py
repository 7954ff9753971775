"""Sets the defaults of HorizontalPodAutoscaler objects.

Source: pkg/apis/autoscaling/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill,
    fill_null,
    struct,
)

CPU_PERCENT = 80

METRICS_ANNOTATION = "autoscaling.alpha.kubernetes.io/metrics"


def autoscaler(obj: Object, _: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill_null(spec, minReplicas=1)
    target = {"type": "Utilization", "averageUtilization": CPU_PERCENT}
    fill(spec, metrics=[{"type": "Resource", "resource": {"name": "cpu", "target": target}}])
    behaviour = spec.get("behavior")
    if behaviour is not None:
        _scaling_rules(behaviour)


def _scaling_rules(behaviour: Object) -> None:
    up, down = struct(behaviour, "scaleUp"), struct(behaviour, "scaleDown")
    fill_null(up, stabilizationWindowSeconds=0, selectPolicy="Max")
    pods = {"type": "Pods", "value": 4, "periodSeconds": 15}
    percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
    fill_null(up, policies=[pods, percent])
    fill_null(down, selectPolicy="Max", policies=[dict(percent)])


def autoscaler_v1(obj: Object, _: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill_null(spec, minReplicas=1)
    if METRICS_ANNOTATION not in ((obj.get("metadata") or {}).get("annotations") or {}):
        fill_null(spec, targetCPUUtilizationPercentage=CPU_PERCENT)

"""Makes the status of a HorizontalPodAutoscaler. Pure functions.

Source: k8s.io/kubernetes/pkg/controller/podautoscaler/horizontal.go, 1.36.
"""

from datetime import datetime
from typing import Any

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.objects import Object

ABLE_TO_SCALE, SCALING_ACTIVE = "AbleToScale", "ScalingActive"
GOT_SCALE = ("SucceededGetScale", "the HPA controller was able to get the target's current scale")
_NOT_SERVED = "the server could not find the requested resource"


def new_condition(kind: str, status: bool | str, reason: str, message: str, now: datetime) -> Object:
    """Returns a condition whose status began now."""
    return {
        "type": kind,
        "status": str(status),
        "lastTransitionTime": timestamp(now),
        "reason": reason,
        "message": message,
    }


def rescaling(current: int, least: int, most: int) -> tuple[int, str] | None:
    """Returns (the new size, why) if the limits alone decide it."""
    if current > most:
        return most, "Current number of replicas above Spec.MaxReplicas"
    if current < least:
        return least, "Current number of replicas below Spec.MinReplicas"
    return None


def failure(metric: dict[str, Any]) -> tuple[str, str, str]:
    """Returns (reason, message, summary of all) for a metric in a cluster that has none."""
    kind = metric["type"]
    if kind in {"Resource", "ContainerResource"}:
        source = metric["resource" if kind == "Resource" else "containerResource"]
        name = source["name"]
        why = (
            f"unable to get metrics for resource {name}: unable to fetch metrics from resource metrics API: "
        )
        why += f"{_NOT_SERVED} (get pods.metrics.k8s.io)"
        if source["target"]["type"] == "Utilization":
            why = f"failed to get {name} utilization: {why}"
        what = "resource" if kind == "Resource" else "container"
        return f"FailedGet{kind}Metric", why, f"failed to get {name} {what} metric value: {why}"
    name = metric[kind[0].lower() + kind[1:]]["metric"]["name"]
    api = "external" if kind == "External" else "custom"
    why = f"unable to get metric {name}: unable to fetch metrics from {api} metrics API: "
    why += f"no {api} metrics API ({api}.metrics.k8s.io) registered"
    return f"FailedGet{kind}Metric", why, f"failed to get {kind.lower()} metric value: {why}"

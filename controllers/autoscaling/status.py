"""Makes the status of a HorizontalPodAutoscaler. Pure functions.

Source: k8s.io/kubernetes/pkg/controller/podautoscaler/horizontal.go, 1.36.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Format, Quantity
from kubeskew.controllers.autoscaling.replicas import Proposal

ABLE_TO_SCALE, SCALING_ACTIVE, SCALING_LIMITED = "AbleToScale", "ScalingActive", "ScalingLimited"
GOT_SCALE = ("SucceededGetScale", "the HPA controller was able to get the target's current scale")
_SOURCES = {"Resource": "resource", "ContainerResource": "containerResource"}


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


def source_of(metric: Object) -> Object | None:
    """Returns what is measured of a resource; None for metrics of other kinds."""
    kind = _SOURCES.get(metric["type"])
    return metric.get(kind) if kind is not None else None


def metric_name(metric: Object) -> str:
    """Returns how the reason for a new size names a metric of a resource."""
    source = source_of(metric) or {}
    if source["target"].get("averageValue") is not None:
        return f"{source['name']} resource"
    what = "container resource" if metric["type"] == "ContainerResource" else "resource"
    return f"{source['name']} {what} utilization (percentage of request)"


def measured(metric: Object, proposal: Proposal, *, binary_memory: bool) -> Object:
    """Returns the status of a metric of a resource."""
    kind, source = _SOURCES[metric["type"]], source_of(metric) or {}
    is_binary = binary_memory and source["name"] == "memory"
    quantity = Quantity(proposal.average, -3, Format.BINARY_SI if is_binary else Format.DECIMAL_SI)
    current: dict[str, Any] = {"averageValue": quantity.canonical()}
    if proposal.utilization is not None:
        current = {"averageUtilization": proposal.utilization, **current}
    names = {key: source[key] for key in ("name", "container") if key in source}
    return {"type": metric["type"], kind: {**names, "current": current}}


def unmeasured(metrics: Sequence[Object]) -> list[Object]:
    """Returns the statuses of metrics that nothing is known of."""
    return [{"type": ""} for _ in metrics]


def failure(metric: Object, why: str) -> tuple[str, str, str]:
    """Returns (reason, message, summary of all) for a metric of a resource that could not be had."""
    source = source_of(metric) or {}
    what = "utilization" if source["target"].get("averageValue") is None else "usage"
    message = f"failed to get {source['name']} {what}: {why}"
    if metric["type"] == "ContainerResource":
        return (
            "FailedGetContainerResourceMetric",
            message,
            f"failed to get {source['container']} container metric value: {message}",
        )
    return (
        "FailedGetResourceMetric",
        message,
        f"failed to get {source['name']} resource metric value: {message}",
    )


def unserved(metric: Object) -> tuple[str, str, str]:
    """Returns the same for a metric of another kind: no server has those."""
    kind = metric["type"]
    name = metric[kind[0].lower() + kind[1:]]["metric"]["name"]
    api = "external" if kind == "External" else "custom"
    why = f"unable to get metric {name}: unable to fetch metrics from {api} metrics API: "
    why += f"no {api} metrics API ({api}.metrics.k8s.io) registered"
    return f"FailedGet{kind}Metric", why, f"failed to get {kind.lower()} metric value: {why}"

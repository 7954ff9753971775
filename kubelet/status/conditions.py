"""The pod conditions that the kubelet derives from the containers (kubelet/status/generate.go, 1.36)."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.allocation.resizing import PendingResize
from kubeskew.kubelet.features import KubeletFeatures


def pod_conditions(
    pod: Object,
    statuses: Sequence[Object],
    phase: str,
    *,
    sandbox_ready: bool,
    features: KubeletFeatures,
    now: datetime,
) -> list[Object]:
    """Returns all conditions that the kubelet owns, in upstream's order; transition times only change with
    the status."""
    present = {c["type"]: c for c in (pod.get("status") or {}).get("conditions") or []}
    by_name = {status["name"]: status for status in statuses}
    initialized = _initialized(pod, by_name, phase)
    containers_ready = _containers_ready(pod, by_name, phase)
    found = [
        _condition("Initialized", **initialized),
        _condition("Ready", **_ready(pod, present, containers_ready)),
        _condition("ContainersReady", **containers_ready),
        _condition("PodScheduled", status="True"),
    ]
    if features.ready_to_start_condition:
        found.insert(0, _condition("PodReadyToStartContainers", status=str(sandbox_ready)))
    for condition in found:
        before = present.get(condition["type"]) or {}
        unchanged = before.get("status") == condition["status"] and before.get("lastTransitionTime")
        condition["lastTransitionTime"] = before["lastTransitionTime"] if unchanged else timestamp(now)
        generation = pod["metadata"].get("generation")
        if features.observed_generation and generation:
            condition["observedGeneration"] = generation
    return found


def pending_condition(
    pod: Object, pending: PendingResize, features: KubeletFeatures, now: datetime
) -> Object:
    """Returns PodResizePending, for a resize that waits or is not possible."""
    present = {c["type"]: c for c in (pod.get("status") or {}).get("conditions") or []}
    before = present.get("PodResizePending") or {}
    found = _condition("PodResizePending", status="True", reason=pending.reason, message=pending.message)
    unchanged = before.get("reason") == pending.reason and before.get("lastTransitionTime")
    found["lastTransitionTime"] = before["lastTransitionTime"] if unchanged else timestamp(now)
    generation = pod["metadata"].get("generation")
    if features.observed_generation and generation:
        found["observedGeneration"] = generation
    return found


def _condition(kind: str, *, status: str, reason: str = "", message: str = "") -> Object:
    condition: Object = {"type": kind, "status": status, "lastProbeTime": None}
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    return condition


def _terminal(phase: str) -> dict[str, str]:
    return {"status": "False", "reason": "PodFailed" if phase == "Failed" else "PodCompleted"}


def _containers_ready(pod: Object, statuses: Mapping[str, Object], phase: str) -> dict[str, str]:
    watched = [c for c in pod_spec.init_containers(pod) if is_sidecar(c)] + pod_spec.containers(pod)
    names = [container["name"] for container in watched]
    unknown = [name for name in names if name not in statuses]
    unready = [name for name in names if name in statuses and not statuses[name]["ready"]]
    if (phase == "Succeeded" and not unknown) or phase == "Failed":
        return _terminal(phase)
    return _verdict(unknown, unready, "unready", "ContainersNotReady")


def _verdict(unknown: list[str], lacking: list[str], lack: str, reason: str) -> dict[str, str]:
    messages = []
    if unknown:
        messages.append(f"containers with unknown status: [{' '.join(unknown)}]")
    if lacking:
        messages.append(f"containers with {lack} status: [{' '.join(lacking)}]")
    if messages:
        return {"status": "False", "reason": reason, "message": ", ".join(messages)}
    return {"status": "True"}


def _ready(pod: Object, present: Mapping[str, Object], containers_ready: dict[str, str]) -> dict[str, str]:
    if containers_ready["status"] != "True":
        return containers_ready
    messages = []
    for gate in pod["spec"].get("readinessGates") or []:
        kind = gate["conditionType"]
        condition = present.get(kind)
        if condition is None:
            messages.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif condition["status"] != "True":
            messages.append(
                f'the status of pod readiness gate "{kind}" is not "True", but {condition["status"]}'
            )
    if messages:
        return {"status": "False", "reason": "ReadinessGatesNotReady", "message": ", ".join(messages)}
    return {"status": "True"}


def _initialized(pod: Object, statuses: Mapping[str, Object], phase: str) -> dict[str, str]:
    inits = pod_spec.init_containers(pod)
    unknown = [c["name"] for c in inits if c["name"] not in statuses]
    incomplete = [
        c["name"]
        for c in inits
        if c["name"] in statuses and not statuses[c["name"]]["started" if is_sidecar(c) else "ready"]
    ]
    if phase == "Succeeded" and not unknown:
        return {"status": "True", "reason": "PodCompleted"}
    if any(_has_started(statuses.get(c["name"])) for c in pod_spec.containers(pod)):
        return {"status": "True"}
    return _verdict(unknown, incomplete, "incomplete", "ContainersNotInitialized")


def _has_started(status: Object | None) -> bool:
    """Returns whether a regular container runs or ran."""
    if status is None:
        return False
    return "waiting" not in status["state"] or bool(status.get("lastState"))

"""Computes the pod's status as the kubelet sees it: phase, conditions, addresses, container statuses.

Pure functions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.allocation.resizing import PendingResize
from kubeskew.kubelet.containers.program import PREFIX
from kubeskew.kubelet.containers.sandbox import Sandbox
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.status.conditions import pending_condition, pod_conditions
from kubeskew.kubelet.status.container_status import WaitingReason, container_status, lost

_OWNED_FIELDS = (
    "phase", "conditions", "message", "reason", "hostIP", "podIP", "podIPs",
    "startTime", "initContainerStatuses", "containerStatuses", "qosClass",
    "ephemeralContainerStatuses",
)  # fmt: skip


def owned_fields(features: KubeletFeatures) -> tuple[str, ...]:
    """Returns the fields of a pod's status that this kubelet knows and writes; it leaves others alone."""
    newer = {
        "hostIPs": features.host_ips,
        "observedGeneration": features.observed_generation,
        "resize": features.resizes and not features.resize_conditions,
    }
    return (*_OWNED_FIELDS, *(name for name, known in newer.items() if known))


@dataclass(slots=True)
class View:
    """The facts that a pod worker knows beside the pod and its sandbox."""

    now: datetime
    host_ip: str
    start_time: str  # when the kubelet first saw the pod
    held_back: Mapping[str, WaitingReason] = field(
        default_factory=dict
    )  # why containers do not run again yet
    ended: bool = False  # all containers have been stopped for good
    reason: str = ""  # why the kubelet ended the pod, if it did
    message: str = ""
    pending_resize: PendingResize | None = None
    unready: frozenset[str] = frozenset()  # containers that are not ready by their probes
    unstarted: frozenset[str] = frozenset()


def pod_status(pod: Object, sandbox: Sandbox | None, view: View, features: KubeletFeatures) -> Object:
    """Returns the kubelet's part of the pod's status."""
    inits = _statuses(pod, pod_spec.init_containers(pod), sandbox, view, features, init=True)
    regular = _statuses(pod, pod_spec.containers(pod), sandbox, view, features, init=False)
    phase = "Failed" if view.reason else pod_phase(pod, inits, regular, ended=view.ended)
    if view.ended:
        regular = [_settled(status) for status in regular] if _ran(regular) else regular
        phase = phase if phase in pod_spec.TERMINAL_PHASES else "Failed"
    sandbox_ready = sandbox is not None and sandbox.ready and not view.ended
    status: Object = {
        "phase": phase,
        "conditions": pod_conditions(
            pod,
            [*inits, *regular],
            phase,
            sandbox_ready=sandbox_ready,
            features=features,
            now=view.now,
        ),
        **_addresses(pod, sandbox, view, features),
        "startTime": view.start_time,
        "containerStatuses": sorted(regular, key=_name),
        "qosClass": pod_spec.qos_class(pod),
    }
    if view.pending_resize is not None and features.resize_conditions:
        status["conditions"].insert(0, pending_condition(pod, view.pending_resize, features, view.now))
    elif view.pending_resize is not None:
        status["resize"] = view.pending_resize.reason
    if inits:
        status["initContainerStatuses"] = inits
    if ephemerals := pod_spec.ephemeral_containers(pod):
        found = _statuses(pod, ephemerals, sandbox, view, features, init=False)
        status["ephemeralContainerStatuses"] = [
            _unprobed(container_status) for container_status in sorted(found, key=_name)
        ]
    if view.reason:
        status |= {"reason": view.reason, "message": view.message}
    generation = pod["metadata"].get("generation")
    if features.observed_generation and generation:
        status["observedGeneration"] = generation
    return status


def rejected_status(pod: Object, reason: str, message: str, now: datetime) -> Object:
    """Makes the status of a pod that its node does not admit (kubelet.go, rejectPod)."""
    return {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "qosClass": pod_spec.qos_class(pod),
        "startTime": timestamp(now),
    }


def _statuses(
    pod: Object,
    specs: Sequence[Object],
    sandbox: Sandbox | None,
    view: View,
    features: KubeletFeatures,
    *,
    init: bool,
) -> list[Object]:
    waiting = WaitingReason("PodInitializing" if pod_spec.init_containers(pod) else "ContainerCreating")
    not_ready = _not_ready(pod)
    return [
        container_status(
            spec,
            sandbox,
            waiting,
            held_back=view.held_back.get(spec["name"]),
            init=init,
            now=view.now,
            features=features,
            not_ready=spec["name"] in not_ready or spec["name"] in view.unready,
            not_started=spec["name"] in view.unstarted,
        )
        for spec in specs
    ]


def _name(status: Object) -> str:
    return str(status["name"])


def _unprobed(status: Object) -> Object:
    """Returns the status of an ephemeral container as never ready: nothing probes it."""
    return {**{name: value for name, value in status.items() if name != "started"}, "ready": False}


def _not_ready(pod: Object) -> frozenset[str]:
    """Returns the containers that the annotation `kubelet.kubeskew.io/not-ready` names, whatever their
    probes say."""
    annotations = pod["metadata"].get("annotations") or {}
    text: str = annotations.get(f"{PREFIX}not-ready") or ""
    return frozenset(name.strip() for name in text.split(","))


def _ran(statuses: Sequence[Object]) -> bool:
    return any("waiting" not in status["state"] or status.get("lastState") for status in statuses)


def _settled(status: Object) -> Object:
    return status if "terminated" in status["state"] else lost(status)


def _addresses(pod: Object, sandbox: Sandbox | None, view: View, features: KubeletFeatures) -> Object:
    found: Object = {"hostIP": view.host_ip}
    if features.host_ips:
        found["hostIPs"] = [{"ip": view.host_ip}]
    if sandbox is not None:
        address = view.host_ip if pod["spec"].get("hostNetwork") else sandbox.ip
        found |= {"podIP": address, "podIPs": [{"ip": address}]}
    return found


def pod_phase(pod: Object, inits: Sequence[Object], regular: Sequence[Object], *, ended: bool) -> str:
    """Returns the phase (kubelet_pods.go, getPhase)."""
    policy = pod_spec.restart_policy(pod)
    pending_init, failed_init = _initialisation(pod, inits, begun=_ran(regular))
    if failed_init and policy == "Never":
        return "Failed"
    running = waiting = stopped = succeeded = 0
    for status in regular:
        state, last = status["state"], (status.get("lastState") or {}).get("terminated")
        ending = state.get("terminated") or ("waiting" in state and last) or None
        if "running" in state:
            running += 1
        elif ending is None:
            waiting += 1
        else:
            stopped += 1
            succeeded += ending["exitCode"] == 0
    if pending_init or waiting or not regular:
        return "Pending"
    if running:
        return "Running"
    return _phase_when_stopped(policy, ended=ended, all_succeeded=stopped == succeeded)


def _initialisation(pod: Object, inits: Sequence[Object], *, begun: bool) -> tuple[bool, bool]:
    """Returns (whether init containers are still to run, whether one failed)."""
    pending = failed = False
    for spec, status in zip(pod_spec.init_containers(pod), inits, strict=True):
        if is_sidecar(spec):
            pending |= not begun and not status["started"]
            continue
        ending = status["state"].get("terminated") or (status.get("lastState") or {}).get("terminated")
        if "running" in status["state"] or ending is None:
            pending = pending or not begun
        elif ending["exitCode"] != 0:
            failed = True
            pending = pending or not begun
    return pending, failed


def _phase_when_stopped(policy: str, *, ended: bool, all_succeeded: bool) -> str:
    if ended:
        return "Succeeded" if all_succeeded else "Failed"
    if policy == "Always":
        return "Running"
    if all_succeeded:
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"

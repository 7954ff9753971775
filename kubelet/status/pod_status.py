"""Computes the status of a pod as the kubelet sees it: phase, conditions, addresses, container statuses.

The status of a container follows from its two newest attempts (convertToAPIContainerStatuses). Pure
functions.

Source: pkg/kubelet/status/generate.go, 1.36.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.conditions import find_condition, transition_time
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import TERMINAL_PHASES, is_sidecar
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.allocation import PendingResize
from kubeskew.kubelet.containers.acting import PREFIX
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.features import KubeletFeatures

_RESTARTING_ALL = "RestartingAllContainers"
_REMOVED = "The container is removed because RestartAllContainers in place"
_UNKNOWN = "The container could not be located when the pod was terminated"
_OWNED_FIELDS = (
    "phase", "conditions", "message", "reason", "hostIP", "podIP", "podIPs",
    "startTime", "initContainerStatuses", "containerStatuses", "qosClass",
    "ephemeralContainerStatuses",
)  # fmt: skip


class WaitingReason(NamedTuple):
    reason: str
    message: str = ""

    def state(self) -> Object:
        waiting = {"reason": self.reason}
        if self.message:
            waiting["message"] = self.message
        return {"waiting": waiting}


def container_status(
    spec: Object,
    sandbox: Sandbox | None,
    waiting: WaitingReason,
    *,
    held_back: WaitingReason | None,
    init: bool,
    now: datetime,
    features: KubeletFeatures,
    not_ready: bool = False,
    not_started: bool = False,
    messages: Mapping[str, str] | None = None,
    removed: Collection[str] = (),
) -> Object:
    """`waiting` is why a container that never ran waits, `held_back` why one does not run again. `removed`
    are the ids of attempts that ended, or were ended, for all of the pod's containers to restart.
    """
    name = spec["name"]
    latest = sandbox.latest(name) if sandbox is not None else None
    if sandbox is None or latest is None:
        return _never_ran(spec, held_back or waiting, features)
    previous = sandbox.previous(name)
    status: Object = {"name": name}
    status["state"] = state_of(latest, now, messages)
    status["lastState"] = state_of(previous, now, messages) if previous is not None else {}
    if previous is not None and previous.id in removed:
        status["lastState"] = _removed()
    is_removed = latest.id in removed and not latest.running(now)
    if is_removed:
        status["state"] = (held_back or WaitingReason(_RESTARTING_ALL, _REMOVED)).state()
        status["lastState"] = _removed()
    elif held_back is not None and not latest.running(now):
        status["lastState"] = status["state"]
        status["state"] = held_back.state()
    running = "running" in status["state"]
    sidecar = init and is_sidecar(spec)
    done = not running and latest.exit_code == 0 and "terminated" in status["state"]
    status["ready"] = done if init and not sidecar else running and not not_ready
    status["restartCount"] = latest.attempt + is_removed
    status["image"] = latest.image
    status["imageID"] = latest.image_id
    status["containerID"] = latest.container_id
    status["started"] = running and not not_started
    return status | _resources(spec, features) | _mounts(spec, features)


def _removed() -> Object:
    ended = {"reason": _RESTARTING_ALL, "message": _REMOVED, "exitCode": KILLED}
    return {"terminated": ended | {"startedAt": None, "finishedAt": None}}


def _never_ran(spec: Object, waiting: WaitingReason, features: KubeletFeatures) -> Object:
    status = {
        "name": spec["name"],
        "state": waiting.state(),
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "image": spec.get("image") or "",
        "imageID": "",
        "started": False,
    }
    return status | _mounts(spec, features)


def state_of(container: Container, now: datetime, messages: Mapping[str, str] | None = None) -> Object:
    if container.running(now):
        return {"running": {"startedAt": timestamp(container.started_at)}}
    ended: Object = {
        "exitCode": container.exit_code,
        "reason": container.reason or ("Completed" if container.exit_code == 0 else "Error"),
        # containerd records no start if there was none
        "startedAt": timestamp(container.started_at) if not container.message else "1970-01-01T00:00:00Z",
        "finishedAt": timestamp(container.ended_at),
        "containerID": container.container_id,
    }
    own = (messages or {}).get(container.id, "")
    if message := ": ".join(text for text in (container.message, own) if text):
        ended["message"] = message
    return {"terminated": ended}


def lost(status: Object) -> Object:
    """Nobody saw the container's end when its pod ended (status_manager, TerminatePod)."""
    state = {"reason": "ContainerStatusUnknown", "message": _UNKNOWN, "exitCode": KILLED}
    return {
        **status,
        "state": {"terminated": state | {"startedAt": None, "finishedAt": None}},
        "ready": False,
    }


KILLED = 137


def _resources(spec: Object, features: KubeletFeatures) -> Object:
    """Resources in the runtime are shown since in-place resizing."""
    resources: Mapping[str, Any] = spec.get("resources") or {}
    if not features.actual_resources:
        return {}
    found: Object = {}
    if features.allocated_resources and resources.get("requests"):
        found["allocatedResources"] = dict(resources["requests"])
    found["resources"] = {key: dict(resources[key]) for key in ("limits", "requests") if resources.get(key)}
    return found


def _mounts(spec: Object, features: KubeletFeatures) -> Object:
    mounts = spec.get("volumeMounts") or []
    if not features.volume_mount_statuses or not mounts:
        return {}
    return {"volumeMounts": [_mount(mount) for mount in mounts]}


def _mount(mount: Object) -> Object:
    status = {"name": mount["name"], "mountPath": mount["mountPath"]}
    if mount.get("readOnly"):
        status |= {"readOnly": True, "recursiveReadOnly": "Disabled"}
    return status


def pod_conditions(
    pod: Object,
    statuses: Sequence[Object],
    phase: str,
    *,
    sandbox_ready: bool,
    features: KubeletFeatures,
    now: datetime,
    restarts_all: bool = False,
) -> list[Object]:
    """Conditions that the kubelet owns stand in upstream's order; transition times only change with the
    status."""
    present = {c["type"]: c for c in (pod.get("status") or {}).get("conditions") or []}
    by_name = {status["name"]: status for status in statuses}
    initialized = _initialized(pod, by_name, phase)
    was_initialized = (present.get("Initialized") or {}).get("status") == "True"
    if features.restarts_all and was_initialized and "message" in initialized:
        initialized = {"status": "True"}  # init containers run again
    containers_ready = _containers_ready(pod, by_name, phase)
    found = [
        _condition("Initialized", **initialized),
        _condition("Ready", **_ready(pod, present, containers_ready)),
        _condition("ContainersReady", **containers_ready),
        _condition("PodScheduled", status="True"),
    ]
    if features.restarts_all and _could_restart_all(pod):
        found.append(_condition("AllContainersRestarting", **_restarting_all(phase, restarts_all)))
    if features.ready_to_start_condition:
        found.insert(0, _condition(features.ready_to_start_condition, status=str(sandbox_ready)))
    for condition in found:
        before = present.get(condition["type"])
        condition["lastTransitionTime"] = transition_time(before, condition["status"], now)
        condition |= _observed_generation(pod, features)
    return found


def _could_restart_all(pod: Object) -> bool:
    specs = [*pod_spec.init_containers(pod), *pod_spec.containers(pod)]
    return any(rule.get("action") == pod_spec.RESTART_ALL for spec in specs for rule in _rules(spec))


def _restarting_all(phase: str, restarts_all: bool) -> dict[str, str]:
    if phase in TERMINAL_PHASES:
        return _terminal(phase)
    if not restarts_all:
        return {"status": "False"}
    message = "container exited with restart policy rule"
    return {"status": "True", "reason": "RestartAllContainersStarted", "message": message}


def pending_condition(
    pod: Object, pending: PendingResize, features: KubeletFeatures, now: datetime
) -> Object:
    before = find_condition(pod, "PodResizePending") or {}
    found = _condition("PodResizePending", status="True", reason=pending.reason, message=pending.message)
    unchanged = before.get("reason") == pending.reason and before.get("lastTransitionTime")
    found["lastTransitionTime"] = before["lastTransitionTime"] if unchanged else timestamp(now)
    return found | _observed_generation(pod, features)


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
    if status is None:
        return False
    return "waiting" not in status["state"] or bool(status.get("lastState"))


def owned_fields(features: KubeletFeatures) -> tuple[str, ...]:
    """This kubelet knows and writes these fields of a pod's status; it leaves others alone."""
    newer = {
        "hostIPs": features.host_ips,
        "observedGeneration": features.observed_generation,
        "resize": features.resizes and not features.resize_conditions,
    }
    return (*_OWNED_FIELDS, *(name for name, known in newer.items() if known))


@dataclass(slots=True)
class View:
    """The facts that a pod worker knows besides the pod and its sandbox."""

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
    messages: Mapping[str, str] = field(default_factory=dict)  # of ended containers, by their ids
    removed: frozenset[str] = frozenset()  # ids of containers that all restart
    restarts_all: bool = False  # some of them have not ended


def pod_status(pod: Object, sandbox: Sandbox | None, view: View, features: KubeletFeatures) -> Object:
    inits = _statuses(pod, pod_spec.init_containers(pod), sandbox, view, features, init=True)
    regular = _statuses(pod, pod_spec.containers(pod), sandbox, view, features, init=False)
    phase = "Failed" if view.reason else pod_phase(pod, inits, regular, features, ended=view.ended)
    if view.ended:
        regular = [_settled(status) for status in regular] if _ran(regular) else regular
        phase = phase if phase in TERMINAL_PHASES else "Failed"
    sandbox_ready = sandbox is not None and sandbox.ready and not view.ended
    status: Object = {
        "phase": phase,
        "conditions": pod_conditions(
            pod,
            [*inits, *regular],
            phase,
            sandbox_ready=sandbox_ready,
            restarts_all=view.restarts_all,
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
    return status | _observed_generation(pod, features)


def rejected_status(
    pod: Object, reason: str, message: str, start_time: str, features: KubeletFeatures
) -> Object:
    """Makes the status of a pod that its node does not admit (kubelet.go, rejectPod)."""
    status = {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": start_time,
    }
    if features.rejected_pods_keep_qos_class:
        status["qosClass"] = pod_spec.qos_class(pod)
    return status | _observed_generation(pod, features)


def _observed_generation(pod: Object, features: KubeletFeatures) -> Object:
    generation = pod["metadata"].get("generation")
    return {"observedGeneration": generation} if features.observed_generation and generation else {}


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
            messages=view.messages,
            removed=view.removed,
        )
        for spec in specs
    ]


def _name(status: Object) -> str:
    return str(status["name"])


def _unprobed(status: Object) -> Object:
    """An ephemeral container is never ready: nothing probes it."""
    return {**{name: value for name, value in status.items() if name != "started"}, "ready": False}


def _not_ready(pod: Object) -> frozenset[str]:
    """Containers that the annotation `kubelet.kubeskew.io/not-ready` names are not ready, no matter what
    their probes say."""
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


def should_restart(pod: Object, spec: Object, exit_code: int, features: KubeletFeatures) -> bool:
    """A container's own rules and policy come before the pod's (ContainerShouldRestart)."""
    policy = pod_spec.restart_policy(pod)
    if features.container_restart_rules and spec.get("restartPolicy"):
        action = restart_action(spec, exit_code)
        if action == "Restart" or (action == pod_spec.RESTART_ALL and features.restarts_all):
            return True
        policy = spec["restartPolicy"]
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def restart_action(spec: Object, exit_code: int) -> str:
    """The action of the container's first rule for the exit code; empty if there is none."""
    rules = (rule for rule in _rules(spec) if _matches(rule.get("exitCodes") or {}, exit_code))
    return next((str(rule.get("action")) for rule in rules), "")


def _rules(spec: Object) -> Sequence[Object]:
    return spec.get("restartPolicyRules") or ()


def _matches(exit_codes: Object, code: int) -> bool:
    listed = code in (exit_codes.get("values") or [])
    return listed == (exit_codes.get("operator") != "NotIn")


def pod_phase(
    pod: Object,
    inits: Sequence[Object],
    regular: Sequence[Object],
    features: KubeletFeatures,
    *,
    ended: bool,
) -> str:
    """Follows kubelet_pods.go, getPhase."""
    pending_init, failed_init = _initialisation(pod, inits, features, begun=_ran(regular))
    if failed_init:
        return "Failed"
    running = waiting = stopped = succeeded = restartable = 0
    for spec, status in zip(pod_spec.containers(pod), regular, strict=True):
        ending = _ending(status)
        if "running" in status["state"]:
            running += 1
        elif ending is None:
            waiting += 1
        else:
            stopped += 1
            succeeded += ending["exitCode"] == 0
            restartable += _runs_again(pod, spec, ending, features)
    if pending_init or waiting or not regular:
        return "Pending"
    if running or (restartable and not ended):
        return "Running"
    return "Succeeded" if stopped == succeeded else "Failed"


def _runs_again(pod: Object, spec: Object, ending: Object, features: KubeletFeatures) -> bool:
    return ending.get("reason") == _RESTARTING_ALL or should_restart(pod, spec, ending["exitCode"], features)


def _ending(status: Object) -> Object | None:
    """The end of a container that has ended or is held back after it."""
    state, last = status["state"], (status.get("lastState") or {}).get("terminated")
    return state.get("terminated") or ("waiting" in state and last) or None


def _initialisation(
    pod: Object, inits: Sequence[Object], features: KubeletFeatures, *, begun: bool
) -> tuple[bool, bool]:
    """The pair is (whether init containers are still to run, whether one failed that does not run again)."""
    pending = failed = False
    for spec, status in zip(pod_spec.init_containers(pod), inits, strict=True):
        if is_sidecar(spec):
            pending |= not begun and not status["started"]
            continue
        ending = status["state"].get("terminated") or (status.get("lastState") or {}).get("terminated")
        if "running" in status["state"] or ending is None:
            pending = pending or not begun
        elif ending["exitCode"] != 0:
            failed |= not _runs_again(pod, spec, ending, features)
            pending = pending or not begun
    return pending, failed

"""The status of one container, from its two newest attempts (convertToAPIContainerStatuses)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.features import KubeletFeatures

_UNKNOWN = "The container could not be located when the pod was terminated"


class WaitingReason(NamedTuple):
    """The reason why a container does not run."""

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
) -> Object:
    """Returns the status; `waiting` is why a container that never ran waits, `held_back` why one does not
    run again."""
    name = spec["name"]
    latest = sandbox.latest(name) if sandbox is not None else None
    if sandbox is None or latest is None:
        return _never_ran(spec, held_back or waiting, features)
    previous = sandbox.previous(name)
    status: Object = {"name": name}
    status["state"] = state_of(latest, now)
    status["lastState"] = state_of(previous, now) if previous is not None else {}
    if held_back is not None and not latest.running(now):
        status["lastState"] = status["state"]
        status["state"] = held_back.state()
    running = "running" in status["state"]
    sidecar = init and is_sidecar(spec)
    done = not running and latest.exit_code == 0 and "terminated" in status["state"]
    status["ready"] = done if init and not sidecar else running and not not_ready
    status["restartCount"] = latest.attempt
    status["image"] = latest.image
    status["imageID"] = latest.image_id
    status["containerID"] = latest.container_id
    status["started"] = running and not not_started
    return status | _resources(spec, features) | _mounts(spec, features)


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


def state_of(container: Container, now: datetime) -> Object:
    """Returns `{"running": …}` or `{"terminated": …}`."""
    if container.running(now):
        return {"running": {"startedAt": timestamp(container.started_at)}}
    assert container.ends_at is not None  # noqa: S101 - what does not run has ended
    ended: Object = {
        "exitCode": container.exit_code,
        "reason": container.reason or ("Completed" if container.exit_code == 0 else "Error"),
        # containerd records no start if there was none
        "startedAt": timestamp(container.started_at) if not container.message else "1970-01-01T00:00:00Z",
        "finishedAt": timestamp(container.ends_at),
        "containerID": container.container_id,
    }
    if container.message:
        ended["message"] = container.message
    return {"terminated": ended}


def lost(status: Object) -> Object:
    """Returns the status of a container whose end nobody saw when its pod ended (status_manager,
    TerminatePod)."""
    state = {"reason": "ContainerStatusUnknown", "message": _UNKNOWN, "exitCode": KILLED}
    return {
        **status,
        "state": {"terminated": state | {"startedAt": None, "finishedAt": None}},
        "ready": False,
    }


KILLED = 137


def _resources(spec: Object, features: KubeletFeatures) -> Object:
    """Returns the resources in the runtime, shown since in-place resizing."""
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

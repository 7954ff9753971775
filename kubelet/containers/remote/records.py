"""The records of sandboxes and containers that follow from a runtime's statuses.

A status says what became of a container. What it was asked for, of which no status tells, such as variables
and devices, is in the requests that the kubelet keeps; a container without one is still known by its labels.

Source: pkg/kubelet/kuberuntime (kuberuntime_container.go, toKubeContainerStatus; kuberuntime_sandbox.go,
determinePodSandboxIPs), 1.36.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from kubeskew.kubelet.containers.remote.requests import RESTART_COUNT
from kubeskew.kubelet.containers.sandbox import Container
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

_BILLION = 1_000_000_000
_UNKNOWN_CODE, _UNKNOWN = 137, "ContainerStatusUnknown"
STATES = messages.ContainerState


@dataclass(slots=True)
class RemoteContainer(Container):
    """A container of a runtime that has a name of its own."""

    runtime_name: str = ""
    log_path: str = ""

    @property
    def container_id(self) -> str:
        return f"{self.runtime_name}://{self.id}"

    @property
    def image_id(self) -> str:
        return self.image_reference


def moment(nanoseconds: int) -> datetime:
    seconds, rest = divmod(nanoseconds, _BILLION)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)


def container_of(
    status: messages.ContainerStatus, request: messages.ContainerConfig, runtime_name: str
) -> RemoteContainer:
    """A new record; `request` is empty if nobody knows it any more."""
    return RemoteContainer(
        id=status.id,
        name=status.metadata.name,
        attempt=int(status.annotations.get(RESTART_COUNT) or status.metadata.attempt),
        image=status.image.image,
        started_at=moment(status.started_at),
        image_reference=status.image_ref,
        env={entry.key: entry.value.decode("utf-8", "surrogateescape") for entry in request.envs},
        cdi_devices=[device.name for device in request.CDI_devices],
        argv=[*request.command, *request.args],
        directory=request.working_dir or "/",
        stdin=request.stdin,
        stdin_once=request.stdin_once,
        tty=request.tty,
        device_nodes=[
            {
                "path": device.container_path,
                "host_path": device.host_path,
                "permissions": device.permissions,
            }
            for device in request.devices
        ],
        host_mounts=[
            {"path": mount.container_path, "host_path": mount.host_path, "read_only": mount.readonly}
            for mount in request.mounts or status.mounts
        ],
        annotations=dict(status.annotations),
        runtime_name=runtime_name,
        log_path=status.log_path,
    )


def follow(container: Container, status: messages.ContainerStatus, now: datetime) -> None:
    """Brings a record up to date; one that has ended stays as it ended."""
    if container.ends_at is not None:
        return
    container.started_at = moment(status.started_at)
    if status.state == STATES.CONTAINER_EXITED:
        container.ends_at = moment(status.finished_at) if status.finished_at else now
        container.exit_code = status.exit_code
        container.reason, container.message = status.reason, status.message
    elif status.state == STATES.CONTAINER_UNKNOWN:
        container.ends_at = now
        container.exit_code, container.reason = _UNKNOWN_CODE, _UNKNOWN


def is_ready(status: messages.PodSandboxStatus) -> bool:
    """A sandbox that is to have an address and has none counts as lost (PodSandboxChanged)."""
    of_node = status.linux.namespaces.options.network == messages.NamespaceMode.NODE
    return status.state == messages.PodSandboxState.SANDBOX_READY and (of_node or bool(status.network.ip))

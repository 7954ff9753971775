"""What the pod lifecycle needs to know of devices; the DRA manager is what implements it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

Object = dict[str, Any]


class DeviceError(Exception):
    """Devices cannot be had or given back; the text is for the pod's owner."""


class DeviceNode(NamedTuple):
    """A device file in a container; `permissions` of r, w and m."""

    path: str
    host_path: str = ""
    permissions: str = ""


class HostMount(NamedTuple):
    """A file or directory of the machine in a container."""

    path: str
    host_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """What one container gets for its devices.

    What the container's own spec says of a variable wins over `default_env`, the kubelet's, and loses to
    `env`, which the runtime adds for CDI devices.
    """

    cdi_ids: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    default_env: Mapping[str, str] = field(default_factory=dict)
    nodes: Sequence[DeviceNode] = ()
    mounts: Sequence[HostMount] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


class PodDevices(Protocol):
    """The devices of a node's pods."""

    async def prepare(self, pod: Object) -> None:
        """Make all the pod's devices usable, before its sandbox is made; raises DeviceError. Idempotent."""
        ...

    def for_container(self, pod: Object, container: Object) -> ContainerDevices:
        """What a container of a prepared pod gets; raises DeviceError."""
        ...

    async def unprepare(self, pod: Object) -> None:
        """Give the pod's devices back, once its containers have stopped; raises DeviceError. Idempotent."""
        ...


class NoDevices:
    """A node without any."""

    async def prepare(self, pod: Object) -> None:
        """Nothing to do."""

    def for_container(self, pod: Object, container: Object) -> ContainerDevices:
        return ContainerDevices()

    async def unprepare(self, pod: Object) -> None:
        """Nothing to do."""

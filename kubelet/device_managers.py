"""The interfaces by which pod workers use device managers: that of DRA, and that of device plugins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kubeskew.apimachinery.objects import Object


class DeviceError(Exception):
    """Devices cannot be had or given back; the text is for the pod's owner."""


class EmptyPodSharedPoolError(DeviceError):
    """A pod asks for too little as a whole: nothing is left for containers that share it."""


class InjectionError(DeviceError):
    """The container runtime cannot put a device into a container."""


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
    must_exist: bool = False  # else a directory is made


class CDIDevice(NamedTuple):
    """A CDI device as the specs resolve its name, with the edits of its whole spec: the variables that it
    sets, and the paths of its device files and mounts in the container."""

    name: str
    env: Mapping[str, str]
    nodes: Sequence[str] = ()
    mounts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """The devices, mounts, variables and annotations that one container gets.

    A variable in the container's spec wins over `default_env`, the kubelet's, and loses to `env`, which the
    runtime adds for CDI devices. `cdi` is what the names among `cdi_ids` resolved to.
    """

    cdi_ids: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    default_env: Mapping[str, str] = field(default_factory=dict)
    nodes: Sequence[DeviceNode] = ()
    mounts: Sequence[HostMount] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi: Sequence[CDIDevice] = ()


def combined(first: ContainerDevices, second: ContainerDevices) -> ContainerDevices:
    """CDI ids, device files and mounts add up; where both set a variable or annotation, the second wins."""
    return ContainerDevices(
        cdi_ids=[*first.cdi_ids, *second.cdi_ids],
        env={**first.env, **second.env},
        default_env={**first.default_env, **second.default_env},
        nodes=[*first.nodes, *second.nodes],
        mounts=[*first.mounts, *second.mounts],
        annotations={**first.annotations, **second.annotations},
        cdi=[*first.cdi, *second.cdi],
    )


class PodDevices(Protocol):
    """The devices of a node's pods."""

    async def prepare(self, pod: Object) -> None:
        """Prepares all the pod's devices, before its sandbox is made; raises DeviceError. Idempotent."""
        ...

    def for_container(self, pod: Object, container: Object) -> ContainerDevices:
        """Called for a container of a prepared pod; raises DeviceError."""
        ...

    async def unprepare(self, pod: Object) -> None:
        """Gives the pod's devices back, once its containers have stopped; raises DeviceError. Idempotent."""
        ...

    def uses_claims(self, pod_uid: str) -> bool:
        """True while the pod is counted among the users of a claim: then it has not ended for others."""
        ...

    def add_health(self, pod: Object, status: Object) -> None:
        """Changes `status` in place."""
        ...


class PluginCapacity(NamedTuple):
    """The capacity that device plugins give a node, per resource; `removed` are resources whose plugins
    left long ago."""

    capacity: Mapping[str, int] = {}
    allocatable: Mapping[str, int] = {}
    removed: Sequence[str] = ()


class DevicePlugins(Protocol):
    """The devices of a node's device plugins, as the pod lifecycle and the node's status see them."""

    @property
    def is_new(self) -> bool:
        """True means that the node's directory is new: its object may be of an earlier node with the name."""
        ...

    async def admit(self, pod: Object) -> None:
        """Allocates devices to the pod's containers, before anything else of the pod; raises DeviceError."""
        ...

    def sources_ready(self) -> None:
        """Called once all pods found at the kubelet's start have been admitted or rejected."""
        ...

    def allocated_for(self, pod: Object) -> Mapping[str, int]:
        """Counts the devices in use on the node by resource, if the pod has any of them: the node has at
        least these."""
        ...

    async def for_container(self, pod: Object, container: Object) -> ContainerDevices:
        """Called for a container that is about to start; raises DeviceError."""
        ...

    def add_health(self, pod: Object, status: Object) -> None:
        """Changes `status` in place."""
        ...

    def capacity(self) -> PluginCapacity: ...


class NoDevices:
    """The devices of a node that has none."""

    async def prepare(self, pod: Object) -> None:
        """Does nothing."""

    def for_container(self, pod: Object, container: Object) -> ContainerDevices:
        return ContainerDevices()

    async def unprepare(self, pod: Object) -> None:
        """Does nothing."""

    def uses_claims(self, pod_uid: str) -> bool:
        return False

    def add_health(self, pod: Object, status: Object) -> None:
        """Does nothing."""

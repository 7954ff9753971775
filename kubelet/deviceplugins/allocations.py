"""Keeps which devices the containers of a node have, and the plugins' answers to Allocate.

As in pkg/kubelet/cm/devicemanager/pod_devices.go, a container with devices of several resources gets all
answers, in the order of the resources' names: the first to name a variable, path or annotation wins.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from kubeskew.kubelet.device_managers import ContainerDevices, DeviceNode, HostMount
from kubeskew.kubelet.protocols.messages.device_plugin_v1beta1_pb2 import ContainerAllocateResponse

T = TypeVar("T")

NO_NUMA_NODE = -1


@dataclass(frozen=True, slots=True)
class Allocation:
    """Devices of one resource in one container, by NUMA node; a device near several nodes is listed under
    each."""

    devices: Mapping[int, tuple[str, ...]]
    response: ContainerAllocateResponse

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(device for devices in self.devices.values() for device in devices)


class Allocations:
    """All allocations of a node: pod UID → container → resource."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, dict[str, Allocation]]] = {}

    def __iter__(self) -> Iterator[tuple[str, str, str, Allocation]]:
        """Yields (pod UID, container, resource, allocation), sorted."""
        for pod, containers in sorted(self._pods.items()):
            for container, resources in sorted(containers.items()):
                for resource, allocation in sorted(resources.items()):
                    yield pod, container, resource, allocation

    def insert(self, pod: str, container: str, resource: str, allocation: Allocation) -> None:
        self._pods.setdefault(pod, {}).setdefault(container, {})[resource] = allocation

    def has_pod(self, pod: str) -> bool:
        return pod in self._pods

    def pods(self) -> set[str]:
        return {*self._pods}

    def delete(self, pods: Iterable[str]) -> None:
        for pod in pods:
            self._pods.pop(pod, None)

    def of_container(self, pod: str, container: str) -> Mapping[str, Allocation]:
        """Returns a container's allocations by resource."""
        return dict(sorted(self._pods.get(pod, {}).get(container, {}).items()))

    def get(self, pod: str, container: str, resource: str) -> Allocation | None:
        return self._pods.get(pod, {}).get(container, {}).get(resource)

    def by_resource(self) -> dict[str, set[str]]:
        """Returns the devices that any container has."""
        found: dict[str, set[str]] = {}
        for _, _, resource, allocation in self:
            found.setdefault(resource, set()).update(allocation.ids)
        return found

    def holders(self, resource: str, devices: Iterable[str]) -> set[str]:
        """Returns the pods that have any of the devices."""
        wanted = frozenset(devices)
        return {pod for pod, _, name, allocation in self if name == resource and allocation.ids & wanted}

    def first_with(self, devices: Iterable[str]) -> set[str]:
        """Returns the pod that has a device of that name, of whatever resource, for each of the devices.

        Upstream takes the first one in the order of Go's maps, which is chance; here it is who came first.
        """
        names = [*devices]
        found = (next((pod for pod in self._pods if name in self._names(pod)), None) for name in names)
        return {pod for pod in found if pod is not None}

    def _names(self, pod: str) -> set[str]:
        containers = self._pods[pod].values()
        return {name for resources in containers for held in resources.values() for name in held.ids}


def injected(allocations: Mapping[str, Allocation]) -> ContainerDevices:
    """Returns what a container with these allocations is started with (deviceRunContainerOptions)."""
    env: dict[str, str] = {}
    nodes: dict[str, DeviceNode] = {}
    mounts: dict[str, HostMount] = {}
    annotations: dict[str, str] = {}
    cdi_ids: dict[str, None] = {}
    for allocation in allocations.values():
        response = allocation.response
        _keep_first(env, response.envs)
        _keep_first(annotations, response.annotations)
        for device in response.devices:
            node = DeviceNode(device.container_path, device.host_path, device.permissions)
            _keep_first(nodes, {device.container_path: node})
        for mount in response.mounts:
            one = HostMount(mount.container_path, mount.host_path, mount.read_only)
            _keep_first(mounts, {mount.container_path: one})
        _keep_first(cdi_ids, {device.name: None for device in response.cdi_devices})
    return ContainerDevices(
        cdi_ids=[*cdi_ids],
        default_env=env,
        nodes=[*nodes.values()],
        mounts=[*mounts.values()],
        annotations=annotations,
    )


def _keep_first(known: dict[str, T], more: Mapping[str, T]) -> None:
    for name, value in more.items():
        known.setdefault(name, value)

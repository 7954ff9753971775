"""The devices that containers of a node have, with the plugins' answers to Allocate, and their checkpoint.

As in pkg/kubelet/cm/devicemanager/pod_devices.go, a container with devices of several resources gets all
answers, in the order of the resources' names: the first to name a variable, path or annotation wins.

The file `kubelet_internal_checkpoint` has the allocations and the known resources
(pkg/kubelet/cm/devicemanager/checkpoint, the same in 1.26 … 1.37). The checksum is upstream's, so that tools
that read or write the file can be used. A kubelet that cannot read it goes on without.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson
from google.protobuf.message import DecodeError

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.checkpoints.checkpoint_manager import (
    SpewText,
    checksum,
    go_text,
    items,
    mapping,
    string,
    struct,
)
from kubeskew.kubelet.device_managers import ContainerDevices, DeviceNode, HostMount
from kubeskew.kubelet.files import StateFiles
from kubeskew.kubelet.protocols.messages.device_plugin_v1beta1_pb2 import ContainerAllocateResponse

T = TypeVar("T")

NO_NUMA_NODE = -1
DIRECTORY, FILE_NAME = "device-plugins", "kubelet_internal_checkpoint"
UNREADABLE = (
    "Continue after failing to read checkpoint file. Device allocation info may NOT be up-to-date: {error}"
)


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
        """Entries (pod UID, container, resource, allocation) are sorted."""
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
        return dict(sorted(self._pods.get(pod, {}).get(container, {}).items()))

    def get(self, pod: str, container: str, resource: str) -> Allocation | None:
        return self._pods.get(pod, {}).get(container, {}).get(resource)

    def by_resource(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for _, _, resource, allocation in self:
            found.setdefault(resource, set()).update(allocation.ids)
        return found

    def holders(self, resource: str, devices: Iterable[str]) -> set[str]:
        wanted = frozenset(devices)
        return {pod for pod, _, name, allocation in self if name == resource and allocation.ids & wanted}

    def first_with(self, devices: Iterable[str]) -> set[str]:
        """Finds, for each of the names, the first pod that has a device of that name, of any resource.

        Upstream takes the first one in the order of Go's maps, which is chance; here it is the pod that came
        first.
        """
        names = [*devices]
        found = (next((pod for pod in self._pods if name in self._names(pod)), None) for name in names)
        return {pod for pod in found if pod is not None}

    def _names(self, pod: str) -> set[str]:
        containers = self._pods[pod].values()
        return {name for resources in containers for held in resources.values() for name in held.ids}


def injected(allocations: Mapping[str, Allocation]) -> ContainerDevices:
    """Merges what a container with these allocations is started with (deviceRunContainerOptions)."""
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


class UnreadableCheckpointError(Exception):
    """The checkpoint cannot be read."""


def write_checkpoint(
    files: StateFiles, directory: Path, allocations: Allocations, registered: Mapping[str, Sequence[str]]
) -> None:
    """Writes the checkpoint; `registered` has the healthy devices by resource."""
    files.write(directory / FILE_NAME, encode_checkpoint(allocations, registered), synced=True)


def read_checkpoint(files: StateFiles, directory: Path) -> tuple[Allocations, list[str]] | None:
    """(allocations, resources) are those of the file; None without one. Raises UnreadableCheckpointError."""
    content = files.read(directory / FILE_NAME)
    return None if content is None else decode_checkpoint(content)


def encode_checkpoint(allocations: Allocations, registered: Mapping[str, Sequence[str]]) -> bytes:
    entries = [
        {
            "PodUID": pod,
            "ContainerName": container,
            "ResourceName": resource,
            "DeviceIDs": {str(node): list(ids) for node, ids in sorted(allocation.devices.items())},
            "AllocResp": base64.b64encode(allocation.response.SerializeToString(deterministic=True)).decode(),
        }
        for pod, container, resource, allocation in allocations
    ]
    data = {
        "PodDeviceEntries": entries or None,
        "RegisteredDevices": {name: list(ids) for name, ids in registered.items()},
    }
    return orjson.dumps({"Data": data, "Checksum": checksum(_printed(data))})


def decode_checkpoint(content: bytes) -> tuple[Allocations, list[str]]:
    """The second value lists the registered resources. Raises UnreadableCheckpointError."""
    try:
        parsed = orjson.loads(content)
        data = parsed["Data"]
        if checksum(_printed(data)) != parsed["Checksum"]:
            raise UnreadableCheckpointError("checkpoint is corrupted")
        allocations = Allocations()
        for entry in data["PodDeviceEntries"] or []:
            names = entry["PodUID"], entry["ContainerName"], entry["ResourceName"]
            allocations.insert(*names, _allocation(entry))
        return allocations, list(data["RegisteredDevices"] or {})
    except orjson.JSONDecodeError as error:
        raise UnreadableCheckpointError(go_text(content, error)) from error
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, DecodeError) as error:
        raise UnreadableCheckpointError(str(error)) from error


def _allocation(entry: Object) -> Allocation:
    devices = {int(node): tuple(ids or ()) for node, ids in (entry["DeviceIDs"] or {}).items()}
    response = ContainerAllocateResponse.FromString(base64.b64decode(entry["AllocResp"] or ""))
    return Allocation(devices, response)


def _printed(data: Object) -> SpewText:
    entries = data["PodDeviceEntries"]
    registered = data["RegisteredDevices"]
    return struct(
        "checkpoint.checkpointData",
        {
            "PodDeviceEntries": items(
                "[]checkpoint.PodDevicesEntry", None if entries is None else map(_printed_entry, entries)
            ),
            "RegisteredDevices": mapping("map[string][]string", _printed_lists(registered)),
        },
    )


def _printed_entry(entry: Object) -> SpewText:
    by_node = entry["DeviceIDs"]
    devices = None if by_node is None else {int(node): ids for node, ids in by_node.items()}
    response = entry["AllocResp"]
    return struct(
        "checkpoint.PodDevicesEntry",
        {
            "PodUID": string(entry["PodUID"]),
            "ContainerName": string(entry["ContainerName"]),
            "ResourceName": string(entry["ResourceName"]),
            "DeviceIDs": mapping("checkpoint.DevicesPerNUMA", _printed_lists(devices)),
            "AllocResp": items("[]uint8", None if response is None else base64.b64decode(response)),
        },
    )


def _printed_lists(lists: Mapping[Any, Sequence[str] | None] | None) -> dict[Any, SpewText] | None:
    return None if lists is None else {key: items("[]string", values) for key, values in lists.items()}

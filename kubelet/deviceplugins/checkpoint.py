"""The file `kubelet_internal_checkpoint`: which containers have which devices, and which resources are known.

pkg/kubelet/cm/devicemanager/checkpoint, the same in 1.26 … 1.37. The checksum is upstream's, so that tools
that read or write the file can be used. A kubelet that cannot read it goes on without.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from google.protobuf.message import DecodeError

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.checkpoints.checksum import SpewText, checksum, items, mapping, string, struct
from kubeskew.kubelet.checkpoints.reading import go_text
from kubeskew.kubelet.deviceplugins.allocations import Allocation, Allocations
from kubeskew.kubelet.files import StateFiles
from kubeskew.kubelet.protocols.messages.device_plugin_v1beta1_pb2 import ContainerAllocateResponse

DIRECTORY, FILE_NAME = "device-plugins", "kubelet_internal_checkpoint"
UNREADABLE = (
    "Continue after failing to read checkpoint file. Device allocation info may NOT be up-to-date: {error}"
)


class CheckpointError(Exception):
    """The checkpoint cannot be read."""


def write(
    files: StateFiles, directory: Path, allocations: Allocations, registered: Mapping[str, Sequence[str]]
) -> None:
    """Writes the checkpoint; `registered` has the healthy devices by resource."""
    files.write(directory / FILE_NAME, encode(allocations, registered))


def read(files: StateFiles, directory: Path) -> tuple[Allocations, list[str]] | None:
    """Returns (allocations, resources), None if there is no checkpoint. Raises CheckpointError."""
    content = files.read(directory / FILE_NAME)
    return None if content is None else decode(content)


def encode(allocations: Allocations, registered: Mapping[str, Sequence[str]]) -> bytes:
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


def decode(content: bytes) -> tuple[Allocations, list[str]]:
    """Returns (allocations, the registered resources). Raises CheckpointError."""
    try:
        parsed = orjson.loads(content)
        data = parsed["Data"]
        if checksum(_printed(data)) != parsed["Checksum"]:
            raise CheckpointError("checkpoint is corrupted")
        allocations = Allocations()
        for entry in data["PodDeviceEntries"] or []:
            names = entry["PodUID"], entry["ContainerName"], entry["ResourceName"]
            allocations.insert(*names, _allocation(entry))
        return allocations, list(data["RegisteredDevices"] or {})
    except orjson.JSONDecodeError as error:
        raise CheckpointError(go_text(content, error)) from error
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, DecodeError) as error:
        raise CheckpointError(str(error)) from error


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

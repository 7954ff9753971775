"""Computes the checksum of the older checkpoint: of Go's dump of its structs (pkg/kubelet/cm/dra/state)."""

from collections.abc import Sequence

from kubeskew.apimachinery.objects import ObjectView
from kubeskew.kubelet import checksum as checksums
from kubeskew.kubelet.checksum import Printed, items, mapping, string, struct


def checksum(version: str, entries: Sequence[ObjectView]) -> int:
    """Returns the checksum of the file's struct, with its own checksum as 0 (checkpointmanager/checksum)."""
    fields = {
        "Version": string(version),
        "Entries": items("state.ClaimInfoStateList", map(_printed_entry, entries)),
        "Checksum": Printed("checksum.Checksum", "0"),
    }
    return checksums.checksum(struct("*state.DRAManagerCheckpoint", fields))


def _printed_entry(entry: ObjectView) -> Printed:
    states = {driver: _printed_state(state) for driver, state in (entry.get("DriverState") or {}).items()}
    users = entry.get("PodUIDs")
    return struct(
        "state.ClaimInfoState",
        {
            "ClaimUID": Printed("types.UID", entry.get("ClaimUID", "")),
            "ClaimName": string(entry.get("ClaimName", "")),
            "Namespace": string(entry.get("Namespace", "")),
            "PodUIDs": mapping("sets.Set[string]", None if users is None else dict.fromkeys(users, "{}")),
            "DriverState": mapping(
                "map[string]state.DriverState", states if "DriverState" in entry else None
            ),
        },
    )


def _printed_state(state: ObjectView) -> Printed:
    devices = state.get("Devices")
    printed = items("[]state.Device", None if devices is None else map(_printed_device, devices))
    return struct("state.DriverState", {"Devices": printed})


def _printed_device(device: ObjectView) -> Printed:
    return struct(
        "state.Device",
        {
            "PoolName": string(device.get("PoolName", "")),
            "DeviceName": string(device.get("DeviceName", "")),
            "RequestNames": items("[]string", device.get("RequestNames")),
            "CDIDeviceIDs": items("[]string", device.get("CDIDeviceIDs")),
        },
    )

"""The checksum of checkpoints up to 1.30: of what Go prints of its structs (pkg/kubelet/cm/dra/state).

The types of the API are part of what is printed: a field that a release gives one of them changes the sum of
every entry that has it (issue 123552).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from kubeskew.kubelet.checkpoints import checkpoint_manager
from kubeskew.kubelet.checkpoints.checkpoint_manager import SpewText, items, mapping, string, struct

Fields = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class EntryForm:
    """Names the members that a release's entry has."""

    handles: bool  # since 1.28: what drivers' controllers said of the claim
    structured: bool  # 1.30: a handle may hold what the scheduler allocated
    semantic: bool = False  # 1.29+kep4381: the same, as KEP-4381 had drafted it


def checksum(version: str, entries: Sequence[Fields], form: EntryForm) -> int:
    """Sums up the file's struct, its own checksum being 0 (checkpointmanager/checksum)."""
    fields = {
        "Version": string(version),
        "Entries": items(
            "state.ClaimInfoStateList", [_printed_entry(entry, form) for entry in entries] or None
        ),
        "Checksum": SpewText("checksum.Checksum", "0"),
    }
    return checkpoint_manager.checksum(struct("*state.DRAManagerCheckpoint", fields))


def _printed_entry(entry: Fields, form: EntryForm) -> SpewText:
    users, devices = entry.get("PodUIDs"), entry.get("CDIDevices")
    fields = {
        "DriverName": string(entry.get("DriverName", "")),
        "ClassName": string(entry.get("ClassName", "")),
        "ClaimUID": SpewText("types.UID", entry.get("ClaimUID", "")),
        "ClaimName": string(entry.get("ClaimName", "")),
        "Namespace": string(entry.get("Namespace", "")),
        "PodUIDs": mapping("sets.Set[string]", None if users is None else dict.fromkeys(users, "{}")),
    }
    if form.handles:
        handles = entry.get("ResourceHandles")
        printed = None if handles is None else [_printed_handle(handle, form) for handle in handles]
        fields["ResourceHandles"] = items("[]v1alpha2.ResourceHandle", printed)
    listed = None if devices is None else {driver: items("[]string", ids) for driver, ids in devices.items()}
    fields["CDIDevices"] = mapping("map[string][]string", listed)
    return struct("state.ClaimInfoState", fields)


def _printed_handle(handle: Fields, form: EntryForm) -> SpewText:
    fields = {
        "DriverName": string(handle.get("driverName") or ""),
        "Data": string(handle.get("data") or ""),
    }
    if form.structured:
        fields["StructuredData"] = _printed_structured(handle.get("structuredData"))
    if form.semantic:
        fields["SemanticData"] = _printed_semantic(handle.get("semanticData"))
    return struct("v1alpha2.ResourceHandle", fields)


def _printed_structured(value: Fields | None) -> SpewText:
    """A pointer to a struct is printed as what it points to."""
    kind = "*v1alpha2.StructuredResourceHandle"
    if value is None:
        return SpewText(kind, "<nil>")
    results = [_printed_result(result) for result in value.get("results") or ()]
    return struct(
        kind,
        {
            "VendorClassParameters": _raw(value.get("vendorClassParameters")),
            "VendorClaimParameters": _raw(value.get("vendorClaimParameters")),
            "NodeName": string(value.get("nodeName") or ""),
            "Results": items("[]v1alpha2.DriverAllocationResult", results or None),
        },
    )


def _printed_semantic(value: Fields | None) -> SpewText:
    kind = "*v1alpha2.SemanticResourceHandle"
    if value is None:
        return SpewText(kind, "<nil>")
    allocations = [_printed_allocation(allocation) for allocation in value.get("allocations") or ()]
    return struct(
        kind,
        {
            "ClassParameters": _raw(value.get("classParameters")),
            "ClaimParameters": _raw(value.get("claimParameters")),
            "NodeName": string(value.get("nodeName") or ""),
            "ResourceID": string(value.get("resourceID") or ""),
            "Allocations": items("[]v1alpha2.SemanticAllocationResult", allocations or None),
        },
    )


def _printed_allocation(allocation: Fields) -> SpewText:
    counter = allocation.get("counter")
    kind = "*v1alpha2.CounterAllocation"
    shown = SpewText(kind, "<nil>")
    if counter is not None:
        fields = {
            "ResourceID": string(counter["resourceID"]),
            "Name": string(counter["name"]),
            "Count": SpewText("int64", str(counter["count"])),
        }
        shown = struct(kind, fields)
    model = struct("v1alpha2.SemanticAllocationResultModel", {"Counter": shown})
    return struct("v1alpha2.SemanticAllocationResult", {"SemanticAllocationResultModel": model})


def _printed_result(result: Fields) -> SpewText:
    named = result.get("namedResources")
    kind = "*v1alpha2.NamedResourcesAllocationResult"
    shown = SpewText(kind, "<nil>") if named is None else struct(kind, {"Name": string(named["name"])})
    model = struct("v1alpha2.AllocationResultModel", {"NamedResources": shown})
    parameters = _raw(result.get("vendorRequestParameters"))
    return struct(
        "v1alpha2.DriverAllocationResult",
        {"VendorRequestParameters": parameters, "AllocationResultModel": model},
    )


def _raw(value: Any) -> SpewText:
    """A RawExtension; its bytes are printed one by one."""
    content = None if value is None else [str(byte) for byte in orjson.dumps(value)]
    fields = {"Raw": items("[]uint8", content), "Fields": SpewText("runtime.Fields", "<nil>")}
    return struct("runtime.RawExtension", fields)

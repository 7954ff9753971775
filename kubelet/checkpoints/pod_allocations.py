"""The files of in-place resizing: what pods were given, by pod UID and container, and what became of resizes.

1.27 to 1.31 keep `pod_status_manager_state`, with a sum of Go's structs, quantities and all
(pkg/kubelet/status/state/checkpoint.go). Such a quantity remembers its text only sometimes, and its notation
always: one that was not made from the text that the file has gives the file a sum that does not fit when it
is read (pull request 126620). Since 1.32 the sum is of a text (pkg/kubelet/allocation/state since 1.33), in
`allocated_pods_state` and `actuated_pods_state` since 1.33. What became of resizes is kept up to 1.31; the
file of 1.32.13 has allocations alone. Since 1.35 entries have what the pod was given as a whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import orjson

from kubeskew.apimachinery.quantity import Quantity
from kubeskew.kubelet.checkpoints.checkpoint_manager import (
    CORRUPTED,
    CheckpointError,
    SpewText,
    checksum,
    items,
    mapping,
    mapping_of,
    parsed,
    string,
    struct,
    sum_of,
    text_of,
    unfit,
)

Resources = dict[str, Any]  # a container's: limits, requests, claims
Allocated = dict[str, dict[str, Resources]]  # by pod UID and container
ResizeStatuses = dict[str, str]  # Deferred, Infeasible or InProgress by pod UID

_ZERO = None  # the amount of Go's zero Quantity, which has no notation; the file has it as "0"
_BIG_WORD = 1 << 64
_NOTHING = "null"  # a checkpoint's text before it is read: a Go pointer to nothing


class AllocationForm(Enum):
    """Names the forms of the files by the first release that had them."""

    STRUCTS = "1.27"  # requests only
    TEXT = "1.32"
    POD_ENTRIES = "1.33"  # in two files
    POD_LEVEL = "1.35"  # with what the pod has as a whole


@dataclass(slots=True)
class PodsState:
    """Holds the contents of one file.

    Forms since 1.32 have no room for `resize_statuses`, and those before 1.35 none for `pod_level`: what pods
    were given as a whole, by UID; pods without are not in it.
    """

    allocated: Allocated = field(default_factory=dict)
    resize_statuses: ResizeStatuses = field(default_factory=dict)
    pod_level: dict[str, Resources] = field(default_factory=dict)


def encode(state: PodsState, form: AllocationForm) -> bytes:
    if form is AllocationForm.STRUCTS:
        lists = {pod: _lists(of_pod) for pod, of_pod in sorted(state.allocated.items())}
        shown = {pod: {name: _texts(found) for name, found in of.items()} for pod, of in lists.items()}
        statuses = dict(sorted(state.resize_statuses.items()))
        entries = {"allocationEntries": shown, "resizeStatusEntries": statuses}
        members = {name: entry for name, entry in entries.items() if entry}
        return orjson.dumps({**members, "checksum": checksum(_printed(lists, statuses))})
    data = orjson.dumps(_data(state, form)).decode()
    return orjson.dumps({"data": data, "checksum": checksum(string(data))})


def decode(content: bytes, form: AllocationForm) -> PodsState:
    """Raises CheckpointError."""
    if form is AllocationForm.STRUCTS:
        return _decode_structs(content)
    kind = "Checkpoint"
    members = parsed(content, "state.Checkpoint")
    data = text_of(members, "data", kind, _NOTHING)
    if checksum(string(data)) != sum_of(members, "checksum", kind, checksum(string(_NOTHING))):
        raise CheckpointError(CORRUPTED)
    try:
        inner = parsed(data.encode())
        if form is AllocationForm.TEXT:
            kind = "PodResourceAllocationInfo"
            allocations = mapping_of(inner, "allocationEntries", kind, "state.PodResourceAllocation")
            return PodsState({pod: _containers(entry) for pod, entry in _of(allocations)})
        kind = "PodResourceCheckpointInfo"
        entries = {
            pod: entry or {}
            for pod, entry in _of(mapping_of(inner, "entries", kind, "state.PodResourceInfoMap"))
        }
        allocated = {pod: _containers(entry.get("ContainerResources")) for pod, entry in entries.items()}
        if form is AllocationForm.POD_ENTRIES:
            return PodsState(allocated)
        whole = {pod: entry.get("PodLevelResources") for pod, entry in entries.items()}
        return PodsState(
            allocated, pod_level={pod: dict(found) for pod, found in whole.items() if found is not None}
        )
    except CheckpointError as error:
        info = "resource allocation info" if form is AllocationForm.TEXT else "resource information"
        raise CheckpointError(f"failed to get pod {info}: {error}") from error


def _of(entries: Mapping[str, Any] | None) -> list[tuple[str, Any]]:
    return [*(entries or {}).items()]


def _containers(found: Any) -> dict[str, Resources]:
    if found is not None and not isinstance(found, dict):
        raise unfit(found, "entries", "map[string]v1.ResourceRequirements")
    return {name: dict(resources or {}) for name, resources in (found or {}).items()}


def _data(state: PodsState, form: AllocationForm) -> dict[str, Any]:
    pods = {
        pod: {name: _requirements(resources) for name, resources in sorted(of_pod.items())}
        for pod, of_pod in sorted(state.allocated.items())
    }
    if not pods:
        return {}
    if form is AllocationForm.TEXT:
        return {"allocationEntries": pods}
    entries: dict[str, dict[str, Any]] = {pod: {"ContainerResources": of_pod} for pod, of_pod in pods.items()}
    if form is AllocationForm.POD_LEVEL:
        for pod, entry in entries.items():
            whole = state.pod_level.get(pod)
            entry["PodLevelResources"] = None if whole is None else _requirements(whole)
    return {"entries": entries}


def _requirements(resources: Resources) -> Resources:
    lists = {
        key: {name: Quantity.of(amount).canonical() for name, amount in sorted(resources[key].items())}
        for key in ("limits", "requests")
        if resources.get(key)
    }
    return lists | ({"claims": resources["claims"]} if resources.get("claims") else {})


# -- structs: 1.27 to 1.31


def _lists(of_pod: Mapping[str, Resources]) -> dict[str, dict[str, Any] | None]:
    """Requests stand under their container; None is Go's nil, for a container without any."""
    return {name: resources.get("requests") for name, resources in sorted(of_pod.items())}


def _texts(amounts: Mapping[str, Any] | None) -> dict[str, str] | None:
    if amounts is None:
        return None
    return {name: Quantity.of(amount).canonical() for name, amount in sorted(amounts.items())}


def _decode_structs(content: bytes) -> PodsState:
    kind = "PodResourceAllocationCheckpoint"
    members = parsed(content)
    entries = mapping_of(members, "allocationEntries", kind, "map[string]map[string]v1.ResourceList")
    statuses = mapping_of(members, "resizeStatusEntries", kind, "map[string]v1.PodResizeStatus")
    if checksum(_printed(entries, statuses)) != sum_of(members, "checksum", kind):
        raise CheckpointError(CORRUPTED)
    allocated: Allocated = {
        pod: {
            name: {} if amounts is None else {"requests": dict(amounts)}
            for name, amounts in (of_pod or {}).items()
        }
        for pod, of_pod in _of(entries)
    }
    return PodsState(allocated, dict(statuses or {}))


def _printed(entries: Mapping[str, Any] | None, statuses: Mapping[str, str] | None) -> SpewText:
    pods = None
    if entries is not None:
        pods = {
            pod: mapping(
                "map[string]v1.ResourceList", {name: _list(amounts) for name, amounts in of_pod.items()}
            )
            for pod, of_pod in entries.items()
        }
    fields = {
        "AllocationEntries": mapping("map[string]map[string]v1.ResourceList", pods),
        "ResizeStatusEntries": mapping("map[string]v1.PodResizeStatus", statuses),
        "Checksum": SpewText("checksum.Checksum", "0"),
    }
    return struct("*state.PodResourceAllocationCheckpoint", fields)


def _list(amounts: Mapping[str, Any] | None) -> SpewText:
    quantities = None
    if amounts is not None:
        quantities = {name: _quantity(amount) for name, amount in amounts.items()}
    return mapping("v1.ResourceList", quantities)


def _quantity(amount: Any) -> SpewText:
    """Prints the Quantity that Go makes of a text."""
    if amount is _ZERO:
        return _quantity_struct(0, 0, SpewText("*inf.Dec", "<nil>"), "", "")
    made = Quantity.of(amount)
    if not made.wide:
        nothing = SpewText("*inf.Dec", "<nil>")
        return _quantity_struct(made.unscaled, made.exponent, nothing, made.remembered, made.format.value)
    return _quantity_struct(0, 0, _dec(made.unscaled, -made.exponent), "", made.format.value)


def _quantity_struct(value: int, scale: int, dec: SpewText, text: str, notation: str) -> SpewText:
    amount = {"value": SpewText("int64", str(value)), "scale": SpewText("resource.Scale", str(scale))}
    fields = {
        "i": struct("resource.int64Amount", amount),
        "d": struct("resource.infDecAmount", {"Dec": dec}),
        "s": string(text),
        "Format": SpewText("resource.Format", notation),
    }
    return struct("resource.Quantity", fields)


def _dec(unscaled: int, scale: int) -> SpewText:
    words, rest = [], abs(unscaled)
    while rest:
        words.append(str(rest % _BIG_WORD))
        rest //= _BIG_WORD
    negative = SpewText("bool", "true" if unscaled < 0 else "false")
    number = struct("big.Int", {"neg": negative, "abs": items("big.nat", words or None)})
    return struct("*inf.Dec", {"unscaled": number, "scale": SpewText("inf.Scale", str(scale))})

"""The file `memory_manager_state`, in the formats V1 to V3 (pkg/kubelet/cm/memorymanager/state).

Up to 1.35 a kubelet writes V1. 1.36 writes V2 with PodLevelResourceManagers, which older kubelets and those
without the gate cannot read. 1.37 writes V3, in which a V1 for older kubelets lies around what it reads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

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

Block = dict[str, Any]  # numaAffinity, type, size
Blocks = dict[str, dict[str, list[Block]]]  # by pod UID and container
_PODS = "state.PodMemoryAssignments"
Machine = dict[str, Any]  # by NUMA node: numberOfAssignments, memoryMap, cells

_TABLE = {
    "total": "TotalMemSize",
    "systemReserved": "SystemReserved",
    "allocatable": "Allocatable",
    "reserved": "Reserved",
    "free": "Free",
}


@dataclass(slots=True)
class MemoryManagerState:
    """The contents: the memory of each NUMA node, and what containers and whole pods have of it."""

    policy: str
    machine: Machine = field(default_factory=dict)
    entries: Blocks = field(default_factory=dict)
    pods: dict[str, list[Block]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MemoryStateFormats:
    """The format that a kubelet writes, and those that it tries to read, in this order.

    `pods`: what whole pods have is read, else left out.
    """

    writes: int
    reads: tuple[int, ...]
    pods: bool = False


def encode(state: MemoryManagerState, formats: MemoryStateFormats) -> bytes:
    contents: dict[str, Any] = {"policyName": state.policy, "machineState": _sorted(state.machine)}
    if state.entries:
        contents["entries"] = _sorted(state.entries)
    pods = {pod: {"memoryBlocks": blocks} for pod, blocks in sorted(state.pods.items())}
    of_pods = {"podEntries": pods} if pods else {}
    if formats.writes == 2:
        return orjson.dumps({**contents, **of_pods, "checksum": checksum(_printed(contents, _pods(pods)))})
    content = {**contents, "checksum": checksum(_printed(contents))}
    if formats.writes == 3:
        data = orjson.dumps({**contents, **of_pods}).decode()
        content |= {"data": data, "dataChecksum": checksum(string(data))}
    return orjson.dumps(content)


def decode(content: bytes, formats: MemoryStateFormats) -> MemoryManagerState:
    """Raises CheckpointError."""
    failure = CheckpointError(CORRUPTED)
    for version in formats.reads:
        try:
            state = _READERS[version](content)
            return state if formats.pods else replace(state, pods={})
        except _FatalError as error:
            raise CheckpointError(str(error)) from error
        except CheckpointError as error:
            failure = error
    raise failure


class _FatalError(Exception):
    """The file is of the format that was tried, and bad: no other is tried."""


def _read_v1(content: bytes) -> MemoryManagerState:
    kind = "MemoryManagerCheckpointV1"
    members = parsed(content)
    state = _state(members, kind)
    total = sum_of(members, "checksum", kind)  # 0 is taken for one that was never set
    if total and total not in [checksum(_printed(members, name=name)) for name in _names(kind)]:
        raise CheckpointError(CORRUPTED)
    return state


def _read_v2(content: bytes) -> MemoryManagerState:
    kind = "MemoryManagerCheckpointV2"
    members = parsed(content)
    state = _state(members, kind)
    pods = _pods(mapping_of(members, "podEntries", kind, _PODS))
    if sum_of(members, "checksum", kind) not in [checksum(_printed(members, pods, n)) for n in _names(kind)]:
        raise CheckpointError(CORRUPTED)
    return state


def _read_v3(content: bytes) -> MemoryManagerState:
    kind = "MemoryManagerCheckpoint"
    members = parsed(content)
    data, total = text_of(members, "data", kind), sum_of(members, "dataChecksum", kind)
    try:
        state = _state(parsed(data.encode()), "MemoryManagerCheckpointData")
    except CheckpointError as error:
        text = f"failed to deserialize memory manager checkpoint data: {error}"
        raise _v3_failure(text, data, total) from error
    if checksum(string(data)) != total:
        raise _v3_failure(CORRUPTED, data, total)
    return state


_READERS: Mapping[int, Callable[[bytes], MemoryManagerState]] = {1: _read_v1, 2: _read_v2, 3: _read_v3}


def _v3_failure(text: str, data: str, total: int) -> Exception:
    """The error is final if the file has anything of V3; else older formats are tried."""
    if data or total:
        return _FatalError(f"could not load v3 checkpoint: {text}")
    return CheckpointError(text)


def _names(kind: str) -> tuple[str, str]:
    """Either struct may have been summed up: kubelets of one format only had the short name."""
    return "MemoryManagerCheckpoint", kind


def _state(members: Mapping[str, Any], kind: str) -> MemoryManagerState:
    machine = mapping_of(members, "machineState", kind, "state.NUMANodeMap")
    entries = mapping_of(members, "entries", kind, "state.ContainerMemoryAssignments")
    state = MemoryManagerState(text_of(members, "policyName", kind), machine or {}, entries or {})
    for of_pod in state.entries.values():
        for blocks in (_object(of_pod, f"{kind}.entries") or {}).values():
            _check_blocks(blocks, f"{kind}.entries")
    for pod, entry in (mapping_of(members, "podEntries", kind, _PODS) or {}).items():
        blocks = (_object(entry, f"{kind}.podEntries") or {}).get("memoryBlocks")
        _check_blocks(blocks, f"{kind}.podEntries")
        state.pods[pod] = blocks or []
    for node in state.machine.values():
        memory = (_object(node, f"{kind}.machineState") or {}).get("memoryMap")
        for table in (_object(memory, f"{kind}.machineState") or {}).values():
            _object(table, f"{kind}.machineState")
    return state


def _check_blocks(blocks: Any, place: str) -> None:
    if blocks is not None and not isinstance(blocks, list):
        raise unfit(blocks, place, "[]state.Block")
    for block in blocks or ():
        _object(block, place)


def _object(value: Any, place: str) -> Mapping[str, Any] | None:
    if value is not None and not isinstance(value, dict):
        raise unfit(value, place, "struct")
    return value


def _sorted(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: values[key] for key in sorted(values)}


# -- as Go prints it


def _printed(
    members: Mapping[str, Any], pods: SpewText | None = None, name: str = "MemoryManagerCheckpoint"
) -> SpewText:
    folded = {key.lower(): value for key, value in members.items()}
    machine, entries = folded.get("machinestate", {}), folded.get("entries", {})
    kind = "state.ContainerMemoryAssignments"
    assigned = None if entries is None else {pod: _containers(of_pod) for pod, of_pod in entries.items()}
    nodes = None
    if machine is not None:
        nodes = {int(node): _pointer(_node(state)) for node, state in machine.items()}
    fields = {
        "PolicyName": string(folded.get("policyname") or ""),
        "MachineState": mapping("state.NUMANodeMap", nodes),
        "Entries": mapping(kind, assigned),
        **({"PodEntries": pods} if pods is not None else {}),
        "Checksum": SpewText("checksum.Checksum", "0"),
    }
    return struct(f"*state.{name}", fields)


def _pointer(value: SpewText) -> SpewText:
    return SpewText(f"*{value.go_type}", f"<*>{value.text}")


def _node(node: Mapping[str, Any]) -> SpewText:
    tables = node.get("memoryMap")
    by_type = None
    if tables is not None:
        by_type = {name: _pointer(_table(table)) for name, table in tables.items()}
    return struct(
        "state.NUMANodeState",
        {
            "NumberOfAssignments": SpewText("int", str(node.get("numberOfAssignments", 0))),
            "MemoryMap": mapping("map[v1.ResourceName]*state.MemoryTable", by_type),
            "Cells": items("[]int", node.get("cells")),
        },
    )


def _table(table: Mapping[str, Any]) -> SpewText:
    fields = {field: SpewText("uint64", str(table.get(name, 0))) for name, field in _TABLE.items()}
    return struct("state.MemoryTable", fields)


def _containers(of_pod: Mapping[str, Any] | None) -> SpewText:
    blocks = None
    if of_pod is not None:
        blocks = {container: _blocks(of_container) for container, of_container in of_pod.items()}
    return mapping("map[string][]state.Block", blocks)


def _blocks(blocks: Sequence[Block] | None) -> SpewText:
    return items("[]state.Block", None if blocks is None else [_block(block) for block in blocks])


def _block(block: Block) -> SpewText:
    fields = {
        "NUMAAffinity": items("[]int", block.get("numaAffinity")),
        "Type": SpewText("v1.ResourceName", block.get("type") or ""),
        "Size": SpewText("uint64", str(block.get("size", 0))),
    }
    return struct("state.Block", fields)


def _pods(entries: Mapping[str, Any] | None) -> SpewText:
    if entries is None:
        return SpewText(_PODS, "<nil>")
    printed = {
        pod: struct("state.PodEntry", {"MemoryBlocks": _blocks((entry or {}).get("memoryBlocks"))})
        for pod, entry in entries.items()
    }
    return mapping(_PODS, printed)

"""The file `cpu_manager_state`, in the formats V1 to V4, and sets of CPUs as text (`0-3,8`).

Up to 1.35 a kubelet writes V2. 1.36 writes V3 with PodLevelResourceManagers, which older kubelets and those
without the gate cannot read. 1.37 writes V4: what it reads itself is a text with a sum of its own, so that
fields can be added, and around it is a V2 for older kubelets. (A V4 without that broke them, issue 139069.)

Sources: pkg/kubelet/cm/cpumanager/state/checkpoint.go, k8s.io/utils/cpuset.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from kubeskew.kubelet.checkpoints.checkpoint_manager import (
    CORRUPTED,
    CheckpointError,
    SpewText,
    checksum,
    mapping,
    mapping_of,
    parsed,
    string,
    struct,
    sum_of,
    text_of,
    unfit,
)

CPUSet = frozenset[int]
_NUMBER = re.compile(r"[+-]?[0-9]+")
Entries = dict[str, dict[str, CPUSet]]  # by pod UID and container
_Texts = Mapping[str, Mapping[str, str]]
_ENTRY_TYPE = "map[string]map[string]string"


class CPUSetError(ValueError):
    """The text is no set of CPUs; the message is Go's."""


def parse_set(text: str) -> CPUSet:
    """Raises CPUSetError."""
    if not text:
        return frozenset()
    return frozenset(cpu for part in text.split(",") for cpu in _range(part))


def format_set(cpus: Iterable[int]) -> str:
    """Runs of CPUs become ranges, which makes the text the shortest: `0-3,8`."""
    return ",".join(
        str(first) if first == last else f"{first}-{last}" for first, last in _ranges(sorted(cpus))
    )


def _range(part: str) -> range:
    ends = [_number(end) for end in part.split("-", 1)]
    first, last = ends[0], ends[-1]
    if first > last:
        raise CPUSetError(f'invalid range "{part}" ({first} > {last})')
    return range(first, last + 1)


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise CPUSetError(f'strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)


def _ranges(cpus: list[int]) -> Iterator[tuple[int, int]]:
    begin = 0
    for at in range(1, len(cpus) + 1):
        if at == len(cpus) or cpus[at] != cpus[at - 1] + 1:
            yield cpus[begin], cpus[at - 1]
            begin = at


@dataclass(slots=True)
class CPUManagerState:
    """The contents: `shared` are the CPUs without exclusive user, `entries` those of containers, `pods` those
    of whole pods, of which their containers have some."""

    policy: str
    shared: CPUSet = frozenset()
    entries: Entries = field(default_factory=dict)
    pods: dict[str, CPUSet] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CPUStateFormats:
    """The format that a kubelet writes, and those that it tries to read, in this order.

    If none fits, the error is that of the last. `pods`: those of whole pods are read, else left out.
    """

    writes: int
    reads: tuple[int, ...]
    shared_name: str = "default cpu set"  # in errors
    pods: bool = False


def encode(state: CPUManagerState, formats: CPUStateFormats) -> bytes:
    entries = {
        pod: {name: format_set(cpus) for name, cpus in sorted(of_pod.items())}
        for pod, of_pod in sorted(state.entries.items())
    }
    contents: dict[str, Any] = {"policyName": state.policy, "defaultCpuSet": format_set(state.shared)}
    if entries:
        contents["entries"] = entries
    pods = {pod: {"cpuSet": format_set(cpus)} for pod, cpus in sorted(state.pods.items())}
    of_pods = {"podEntries": pods} if pods else {}
    if formats.writes == 3:
        total = checksum(_printed(contents, entries, _pods(pods)))
        return orjson.dumps({**contents, **of_pods, "checksum": total})
    content: dict[str, Any] = {**contents, "checksum": checksum(_printed(contents, entries))}
    if formats.writes == 4:
        data = orjson.dumps({**contents, **of_pods}).decode()
        content |= {"data": data, "dataChecksum": checksum(string(data))}
    return orjson.dumps(content)


def decode(content: bytes, formats: CPUStateFormats) -> CPUManagerState:
    """Raises CheckpointError."""
    failure = CheckpointError(CORRUPTED)
    for version in formats.reads:
        try:
            return _state(_READERS[version](content), formats)
        except _FatalError as error:
            raise CheckpointError(str(error)) from error
        except CheckpointError as error:
            failure = error
    raise failure


class _FatalError(Exception):
    """The file is of the format that was tried, and bad: no other is tried."""


@dataclass(frozen=True, slots=True)
class _Contents:
    policy: str
    shared: str
    entries: _Texts
    pods: Mapping[str, CPUSet]


def _state(contents: _Contents, formats: CPUStateFormats) -> CPUManagerState:
    try:
        shared = parse_set(contents.shared)
    except CPUSetError as error:
        raise _FatalError(f'could not parse {formats.shared_name} "{contents.shared}": {error}') from error
    state = CPUManagerState(contents.policy, shared, pods=dict(contents.pods) if formats.pods else {})
    for pod, of_pod in contents.entries.items():
        for name, text in of_pod.items():
            try:
                state.entries.setdefault(pod, {})[name] = parse_set(text)
            except CPUSetError as error:
                raise _FatalError(
                    f'could not parse cpuset "{text}" for container "{name}" in pod "{pod}": {error}'
                ) from error
    return state


def _read_v1(content: bytes) -> _Contents:
    """The format of kubelets before 1.18, whose entries name containers' ids: no container of a fake node is
    among them."""
    kind = "CPUManagerCheckpointV1"
    members = parsed(content)
    entries = mapping_of(members, "entries", kind, "map[string]string")
    for text in (entries or {}).values():
        if not isinstance(text, str):
            raise unfit(text, f"{kind}.entries", "string")
    printed = SpewText("map[string]string", mapping("map[string]string", entries).text)
    _verify(members, kind, (_struct("CPUManagerCheckpoint", members, {"Entries": printed}),), zero=True)
    for container in entries or {}:
        raise _FatalError(f"containerID '{container}' not found in initial containers list")
    return _Contents(text_of(members, "policyName", kind), text_of(members, "defaultCpuSet", kind), {}, {})


def _read_v2(content: bytes) -> _Contents:
    kind = "CPUManagerCheckpointV2"
    members = parsed(content)
    entries = _entries(members, kind)
    names = ("CPUManagerCheckpoint", kind)
    _verify(members, kind, tuple(_printed(members, entries, name=name) for name in names), zero=True)
    return _contents(members, entries, kind)


def _read_v3(content: bytes) -> _Contents:
    kind = "CPUManagerCheckpointV3"
    members = parsed(content)
    entries = _entries(members, kind)
    pods = mapping_of(members, "podEntries", kind, "state.PodCPUAssignments")
    names = ("CPUManagerCheckpoint", kind)
    _verify(members, kind, tuple(_printed(members, entries, _pods(pods), name) for name in names))
    return _contents(members, entries, kind, _sets(pods))


def _read_v4(content: bytes) -> _Contents:
    kind = "CPUManagerCheckpoint"
    members = parsed(content)
    data, total = text_of(members, "data", kind), sum_of(members, "dataChecksum", kind)
    try:
        contents, inner = parsed(data.encode()), "CPUManagerCheckpointData"
        pods = mapping_of(contents, "podEntries", inner, "state.PodCPUAssignments")
        read = _contents(contents, _entries(contents, inner), inner, _sets(pods))
    except CheckpointError as error:
        text = f"failed to deserialize cpu manager checkpoint data: {error}"
        raise _v4_failure(text, data, total) from error
    if checksum(string(data)) != total:
        raise _v4_failure(CORRUPTED, data, total)
    return read


def _v4_failure(text: str, data: str, total: int) -> Exception:
    """The error is final if the file has anything of V4; else older formats are tried."""
    if data or total:
        return _FatalError(f"could not load v4 checkpoint: {text}")
    return CheckpointError(text)


_READERS: Mapping[int, Callable[[bytes], _Contents]] = {1: _read_v1, 2: _read_v2, 3: _read_v3, 4: _read_v4}


def _contents(
    members: Mapping[str, Any], entries: _Texts | None, kind: str, pods: Mapping[str, CPUSet] | None = None
) -> _Contents:
    shared = text_of(members, "defaultCpuSet", kind)
    return _Contents(text_of(members, "policyName", kind), shared, entries or {}, pods or {})


def _entries(members: Mapping[str, Any], kind: str) -> _Texts | None:
    entries = mapping_of(members, "entries", kind, _ENTRY_TYPE)
    for of_pod in (entries or {}).values():
        if of_pod is not None and not isinstance(of_pod, dict):
            raise unfit(of_pod, f"{kind}.entries", "map[string]string")
        for text in (of_pod or {}).values():
            if not isinstance(text, str):
                raise unfit(text, f"{kind}.entries", "string")
    return entries


def _verify(
    members: Mapping[str, Any], kind: str, printed: tuple[SpewText, ...], *, zero: bool = False
) -> None:
    """Raises CheckpointError if the sum is that of none of the printed structs; `zero` is taken for one
    that was never set."""
    total = sum_of(members, "checksum", kind)
    if not (zero and total == 0) and total not in map(checksum, printed):
        raise CheckpointError(CORRUPTED)


def _printed(
    members: Mapping[str, Any],
    entries: _Texts | None,
    pods: SpewText | None = None,
    name: str = "CPUManagerCheckpoint",
) -> SpewText:
    by_pod = None
    if entries is not None:
        by_pod = {pod: mapping("map[string]string", of_pod) for pod, of_pod in entries.items()}
    fields = {"Entries": mapping(_ENTRY_TYPE, by_pod)} | ({"PodEntries": pods} if pods is not None else {})
    return _struct(name, members, fields)


def _struct(name: str, members: Mapping[str, Any], fields: Mapping[str, SpewText]) -> SpewText:
    folded = {key.lower(): value for key, value in members.items()}
    return struct(
        f"*state.{name}",
        {
            "PolicyName": string(folded.get("policyname") or ""),
            "DefaultCPUSet": string(folded.get("defaultcpuset") or ""),
            **fields,
            "Checksum": SpewText("checksum.Checksum", "0"),
        },
    )


def _pods(entries: Mapping[str, Any] | None) -> SpewText:
    kind = "state.PodCPUAssignments"
    if entries is None:
        return SpewText(kind, "<nil>")
    printed = {}
    for pod, cpus in _sets(entries).items():
        elements = mapping("map[int]struct {}", dict.fromkeys(cpus, "{}"))
        printed[pod] = struct("state.PodEntry", {"CPUSet": struct("cpuset.CPUSet", {"elems": elements})})
    return mapping(kind, printed)


def _sets(entries: Mapping[str, Any] | None) -> dict[str, CPUSet]:
    """Raises CheckpointError."""
    try:
        return {pod: parse_set(entry.get("cpuSet") or "") for pod, entry in (entries or {}).items()}
    except (AttributeError, CPUSetError) as error:
        raise CheckpointError(str(error)) from error

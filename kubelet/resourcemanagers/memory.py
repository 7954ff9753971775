"""The memory manager: memory of NUMA nodes for containers of Guaranteed pods (pkg/kubelet/cm/memorymanager).

A fake node has one NUMA node with all its memory.
"""

import copy
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.checkpoints import memory_manager_state
from kubeskew.kubelet.checkpoints.checkpoint_manager import CheckpointError
from kubeskew.kubelet.checkpoints.memory_manager_state import (
    Block,
    Machine,
    MemoryManagerState,
    MemoryStateFormats,
)
from kubeskew.kubelet.device_managers import DeviceError, EmptyPodSharedPoolError
from kubeskew.kubelet.features import PodLevelFeatures
from kubeskew.kubelet.files import StateFiles
from kubeskew.kubelet.resourcemanagers.pod_level import (
    UNMANAGED,
    NodeAmounts,
    PoolTexts,
    asks_as_a_whole,
    divided,
    may_have_some_alone,
    pool_error,
)

FILE_NAME = "memory_manager_state"
STATIC = "Static"
_POOL = PoolTexts(
    "pod rejected, largest exclusive init container requests {asked} of {name}, but only {left} available",
    "pod rejected, pod has shared init containers but no {name} available for them",
    "pod rejected, sum of exclusive container {name} requests equals pod budget, leaving no memory for "
    "shared containers",
)
_UPSTREAM_PATH = f"/var/lib/kubelet/{FILE_NAME}"
_HUGE_PAGES = ("hugepages-1Gi", "hugepages-2Mi")
_NODE = "0"


class MemoryManager:
    """The memory of one node. Call `start` first."""

    def __init__(
        self,
        directory: Path,
        amounts: NodeAmounts,
        policy: str,
        formats: MemoryStateFormats,
        files: StateFiles,
        pod_level: PodLevelFeatures = UNMANAGED,
        *,
        by_pod: bool = False,
    ) -> None:
        """The checkpoint is in `directory`. `by_pod`: the topology manager's scope is the pod."""
        self._path = directory / FILE_NAME
        self._formats = formats
        self._files = files
        self._policy = policy
        self._pod_level = pod_level
        self._by_pod = by_pod
        self._reserved = Quantity.parse(amounts.reserved.get("memory", "0")).value()
        self._empty = _empty_machine(amounts.capacity, self._reserved)
        self._state = MemoryManagerState(self._policy)
        self._reusable: tuple[str, dict[str, int]] = ("", {})  # of init containers of the newest pod

    @property
    def state(self) -> MemoryManagerState:
        """Restored by `start`, and changed with each allocation."""
        return self._state

    @property
    def is_static(self) -> bool:
        return self._policy == STATIC

    def memory_of(self, pod: str, container: str) -> Sequence[Block]:
        """The memory that a container has for itself."""
        return self._state.entries.get(pod, {}).get(container, ())

    @property
    def allocatable(self) -> Sequence[Block]:
        """The memory that containers can have for themselves, taken or not."""
        tables = self._state.machine[_NODE]["memoryMap"] if self.is_static else {}
        return [
            _block(kind, table["allocatable"])
            for kind, table in sorted(tables.items())
            if table["allocatable"]
        ]

    def start(self) -> None:
        """Restores what the last kubelet stored. Raises CheckpointError, and the kubelet does not start."""
        if self.is_static and self._reserved <= 0:
            raise CheckpointError("[memorymanager] you should specify the system reserved memory")
        try:
            self._restore()
        except CheckpointError as error:
            raise CheckpointError(
                f"start memory manager error: could not restore state from checkpoint: {error}, please drain "
                f'this node and delete the memory manager checkpoint file "{_UPSTREAM_PATH}" before '
                "restarting Kubelet"
            ) from error
        if self.is_static:
            self._validate()

    def allocate(self, pod: Object) -> None:
        """Gives memory to the pod's containers if it is Guaranteed. Raises DeviceError."""
        if not self.is_static or pod_spec.qos_class(pod) != "Guaranteed":
            return
        if asks_as_a_whole(pod) and not self._pod_level.managed:
            return
        if asks_as_a_whole(pod) and self._by_pod:
            self._allocate_whole(pod)
            return
        for container in [*pod_spec.init_containers(pod), *pod_spec.containers(pod)]:
            self._allocate(pod, container)

    def collect(self, active: Mapping[str, Set[str]]) -> None:
        """Takes back the memory of containers that no active pod has."""
        stale = [
            (pod, name)
            for pod, of_pod in self._state.entries.items()
            for name in of_pod
            if name not in active.get(pod, ())
        ]
        for pod, name in stale:
            self._release(pod, name)

    # --

    def _restore(self) -> None:
        content = self._files.read(self._path)
        if content is None:
            self.save()
            return
        try:
            state = memory_manager_state.decode(content, self._formats)
        except (AttributeError, TypeError, ValueError) as error:
            raise CheckpointError(f"checkpoint has another shape: {error!r}") from error
        if state.policy != self._policy:
            raise CheckpointError(
                f'[memorymanager] configured policy "{self._policy}" differs from state checkpoint policy '
                f'"{state.policy}"'
            )
        self._state = state

    def _validate(self) -> None:
        """Checks the state against the node's memory (policy_static.go, validateState)."""
        state = self._state
        if not state.machine:
            if state.entries:
                raise CheckpointError(
                    "start memory manager error: [memorymanager] machine state can not be empty when it has "
                    "memory assignments"
                )
            state.machine = copy.deepcopy(self._empty)
            self.save()
            return
        expected = copy.deepcopy(self._empty)
        for pod, of_pod in state.entries.items():
            whole = state.pods.get(pod)
            for blocks in of_pod.values() if whole is None else [whole]:
                for block in blocks:
                    _take(expected, block)
        if expected != state.machine:
            raise CheckpointError(
                "start memory manager error: [memorymanager] the expected machine state is different from "
                "the real one"
            )

    def _allocate(self, pod: Object, container: Object) -> None:
        uid, name, state = pod_spec.uid_of(pod), container["name"], self._state
        blocks: list[Block] | None = state.entries.get(uid, {}).get(name)
        if blocks is None:
            reusable = self._reusable[1] if self._reusable[0] == uid else {}
            blocks = [_block(kind, size) for kind, size in _alone(pod, container).items()]
            machine = copy.deepcopy(state.machine)
            for block in blocks:
                missing = max(0, block["size"] - reusable.get(block["type"], 0))
                _take_free(machine, _block(block["type"], missing))
            state.machine = machine
            state.entries.setdefault(uid, {})[name] = blocks
            self._shrink_init_containers(pod, container, blocks)
            self.save()
        self._note_reusable(pod, container, blocks)

    def _allocate_whole(self, pod: Object) -> None:
        """Gives the pod what it asks for as a whole, and notes the parts of its containers."""
        whole = _requested(pod["spec"])
        error = pool_error(pod, whole, lambda each: _alone(pod, each), _POOL)
        if error:
            raise EmptyPodSharedPoolError(error)
        uid, state = pod_spec.uid_of(pod), self._state
        if uid in state.pods and not self._pod_level.reallocates_memory:
            return
        blocks = [_block(kind, size) for kind, size in whole.items()]
        machine = copy.deepcopy(state.machine)
        for block in blocks:
            _take_free(machine, block)
        state.machine = machine
        state.pods[uid] = blocks
        state.entries[uid] = _parts(pod, whole)
        self.save()

    def _note_reusable(self, pod: Object, container: Object, blocks: list[Block]) -> None:
        """Notes the memory of the pod's init containers, which end, that its other containers may have."""
        uid = pod_spec.uid_of(pod)
        before = self._reusable[1] if self._reusable[0] == uid else {}
        sizes = {block["type"]: block["size"] for block in blocks}
        if container in pod_spec.init_containers(pod) and not is_sidecar(container):
            after = {kind: max(before.get(kind, 0), sizes.get(kind, 0)) for kind in sorted({*before, *sizes})}
        else:
            after = {kind: max(0, size - sizes.get(kind, 0)) for kind, size in before.items()}
        self._reusable = uid, after

    def _shrink_init_containers(self, pod: Object, container: Object, blocks: list[Block]) -> None:
        """Takes from blocks of init containers what a container has over from them: all blocks of a pod
        together are what it was given (updateInitContainersMemoryBlocks)."""
        if container in pod_spec.init_containers(pod) and is_sidecar(container):
            return
        of_pod = self._state.entries[pod_spec.uid_of(pod)]
        for block in blocks:
            rest = block["size"]
            for init in pod_spec.init_containers(pod):
                if init["name"] == container["name"]:
                    break
                if is_sidecar(init):
                    continue
                for earlier in of_pod.get(init["name"], []):
                    if earlier["type"] == block["type"]:
                        taken = min(rest, earlier["size"])
                        earlier["size"] -= taken
                        rest -= taken

    def _release(self, pod: str, name: str) -> None:
        """Takes a container's memory back; that of a whole pod once the last of its containers is gone."""
        of_pod, whole = self._state.entries[pod], self._state.pods.get(pod)
        blocks = of_pod.pop(name)
        if whole is not None:
            blocks = [] if of_pod else whole
        for block in blocks:
            node = self._state.machine[_NODE]
            table = node["memoryMap"][block["type"]]
            node["numberOfAssignments"] -= 1
            table["reserved"] -= block["size"]
            table["free"] += block["size"]
        if not of_pod:
            del self._state.entries[pod]
            self._state.pods.pop(pod, None)
        self.save()

    def save(self) -> None:
        self._files.write(self._path, memory_manager_state.encode(self._state, self._formats), synced=True)


def _empty_machine(capacity: Mapping[str, str], reserved: int) -> Machine:
    total = Quantity.parse(capacity["memory"]).value()
    tables = {kind: _table(Quantity.parse(capacity.get(kind, "0")).value(), 0) for kind in _HUGE_PAGES}
    tables["memory"] = _table(total, min(reserved, total))
    return {_NODE: {"numberOfAssignments": 0, "memoryMap": tables, "cells": [0]}}


def _table(total: int, reserved: int) -> dict[str, int]:
    usable = total - reserved
    return {
        "total": total,
        "systemReserved": reserved,
        "allocatable": usable,
        "reserved": 0,
        "free": usable,
    }


def _block(kind: str, size: int) -> Block:
    return {"numaAffinity": [0], "type": kind, "size": size}


def _take(machine: Machine, block: Block) -> None:
    node = machine[_NODE]
    node["numberOfAssignments"] += 1
    table = node["memoryMap"][block["type"]]
    table["reserved"] += block["size"]
    table["free"] -= block["size"]


def _take_free(machine: Machine, block: Block) -> None:
    """Raises DeviceError."""
    if machine[_NODE]["memoryMap"].get(block["type"], {}).get("free", 0) < block["size"]:
        raise DeviceError(
            "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is "
            "available"
        )
    _take(machine, block)


def _alone(pod: Object, container: Object) -> dict[str, int]:
    return _requested(container) if may_have_some_alone(pod, container) else {}


def _parts(pod: Object, whole: Mapping[str, int]) -> dict[str, list[Block]]:
    parts = divided(pod, whole, lambda _, container: _alone(pod, container) or None, _less)
    return {
        name: [_block(kind, size) for kind, size in part.items() if size > 0] for name, part in parts.items()
    }


def _less(amounts: Mapping[str, int], taken: Mapping[str, int]) -> Mapping[str, int]:
    return {kind: amount - taken.get(kind, 0) for kind, amount in amounts.items()}


def _requested(asking: Object) -> dict[str, int]:
    """Memory and huge pages are in bytes; a pod may ask as a whole."""
    asked = pod_spec.requests_of(asking)
    return {
        name: amount.value()
        for name, amount in sorted(asked.items())
        if name == "memory" or name.startswith("hugepages-")
    }

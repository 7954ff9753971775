"""The CPU manager: exclusive CPUs for containers of Guaranteed pods (pkg/kubelet/cm/cpumanager).

A fake node has one socket, whose cores have one thread each, so that the static policy takes the CPUs with
the lowest numbers. The reserved ones are the first; they stay in the pool that all other containers share.
"""

import math
from collections.abc import Callable, Mapping, Set
from pathlib import Path

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.checkpoints import cpu_manager_state
from kubeskew.kubelet.checkpoints.checkpoint_manager import CheckpointError
from kubeskew.kubelet.checkpoints.cpu_manager_state import (
    CPUManagerState,
    CPUSet,
    CPUStateFormats,
    format_set,
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

FILE_NAME = "cpu_manager_state"
STATIC = "static"
_POOL = PoolTexts(
    "pod rejected, largest exclusive init container requests {asked} cpus, but only {left} available",
    "pod rejected, pod has shared init containers but no cpus available for them",
    "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus for shared "
    "containers",
)
_UPSTREAM_PATH = f"/var/lib/kubelet/{FILE_NAME}"

ActiveContainers = Callable[[], Mapping[str, Set[str]]]  # by UID of the node's active pods


class CPUManager:
    """The CPUs of one node. Call `start` first."""

    def __init__(
        self,
        directory: Path,
        amounts: NodeAmounts,
        policy: str,
        formats: CPUStateFormats,
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
        self._all: CPUSet = frozenset(range(Quantity.parse(amounts.capacity["cpu"]).milli_value() // 1000))
        reserved = Quantity.parse(amounts.reserved.get("cpu", "0")).milli_value()
        self._reserved: CPUSet = frozenset(sorted(self._all)[: math.ceil(reserved / 1000)])
        self._state = CPUManagerState(self._policy)
        self._reusable: tuple[str, CPUSet] = ("", frozenset())  # of init containers of the newest pod

    @property
    def state(self) -> CPUManagerState:
        """Restored by `start`, and changed with each allocation."""
        return self._state

    @property
    def is_static(self) -> bool:
        return self._policy == STATIC

    def cpus_of(self, pod: str, container: str) -> CPUSet:
        """The CPUs that a container has for itself."""
        return self._state.entries.get(pod, {}).get(container, frozenset())

    @property
    def allocatable(self) -> CPUSet:
        """The CPUs that containers can have for themselves, taken or not."""
        return self._all - self._reserved if self.is_static else frozenset()

    def start(self) -> None:
        """Restores what the last kubelet stored. Raises CheckpointError, and the kubelet does not start."""
        if self.is_static and not self._reserved:
            raise CheckpointError(
                "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater "
                "than zero"
            )
        try:
            self._restore()
        except CheckpointError as error:
            raise CheckpointError(
                f"start cpu manager error: could not restore state from checkpoint: {error}, please drain "
                f'this node and delete the CPU manager checkpoint file "{_UPSTREAM_PATH}" before restarting '
                "Kubelet"
            ) from error
        if self.is_static:
            self._validate()

    def allocate(self, pod: Object) -> None:
        """Gives exclusive CPUs to those of the pod's containers that are to have some. Raises DeviceError."""
        if not self.is_static or (asks_as_a_whole(pod) and not self._pod_level.managed):
            return
        if asks_as_a_whole(pod) and self._by_pod:
            self._allocate_whole(pod)
            return
        for container in [*pod_spec.init_containers(pod), *pod_spec.containers(pod)]:
            count = _exclusive(pod, container)
            if count:
                self._allocate(pod, container, count)

    def collect(self, active: Mapping[str, Set[str]]) -> None:
        """Takes back the CPUs of containers that no active pod has."""
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
            state = cpu_manager_state.decode(content, self._formats)
        except (AttributeError, TypeError, ValueError) as error:
            raise CheckpointError(f"checkpoint has another shape: {error!r}") from error
        if state.policy != self._policy:
            raise CheckpointError(
                f'configured policy "{self._policy}" differs from state checkpoint policy "{state.policy}"'
            )
        self._state = state

    def _validate(self) -> None:
        """Checks the state against the node's CPUs (policy_static.go, validateState)."""
        shared, assigned = self._state.shared, self._state.entries
        if not shared:
            if assigned:
                raise CheckpointError("start cpu manager error: default cpuset cannot be empty")
            self._state.shared = self._all
            self.save()
            return
        if not self._reserved <= shared:
            raise CheckpointError(
                f'start cpu manager error: not all reserved cpus: "{format_set(self._reserved)}" are present '
                f'in defaultCpuSet: "{format_set(shared)}"'
            )
        known = shared
        for pod, of_pod in assigned.items():
            for name, cpus in of_pod.items():
                if shared & cpus:
                    raise CheckpointError(
                        f"start cpu manager error: pod: {pod}, container: {name} cpuset: "
                        f'"{format_set(cpus)}" overlaps with default cpuset "{format_set(shared)}"'
                    )
                known |= cpus
        known = known.union(*self._state.pods.values())
        if known != self._all:
            raise CheckpointError(
                f'start cpu manager error: current set of available CPUs "{format_set(self._all)}" doesn\'t '
                f'match with CPUs in state "{format_set(known)}"'
            )

    def _allocate(self, pod: Object, container: Object, count: int) -> None:
        uid, name = pod_spec.uid_of(pod), container["name"]
        cpus = self._state.entries.get(uid, {}).get(name)
        if cpus is None:
            reusable = self._reusable[1] if self._reusable[0] == uid else frozenset()
            cpus = _take((self._state.shared - self._reserved) | reusable, count)
            self._state.shared -= cpus
            self._state.entries.setdefault(uid, {})[name] = cpus
            self.save()
        self._note_reusable(pod, container, cpus)

    def _allocate_whole(self, pod: Object) -> None:
        """Gives the pod what it asks for as a whole, and its containers their parts."""
        whole = _whole(pod)
        if not whole:
            return
        error = pool_error(pod, {"cpu": whole}, lambda each: _alone(pod, each), _POOL)
        if error:
            raise EmptyPodSharedPoolError(error)
        uid, state = pod_spec.uid_of(pod), self._state
        known = state.pods.get(uid)
        if known is None or self._pod_level.reallocates_cpus:
            known = _take(state.shared - self._reserved, whole)
            state.shared -= known
            state.pods[uid] = known
            state.entries[uid] = {}
        state.entries[uid] = {**_parts(pod, known), **state.entries.get(uid, {})}
        self.save()

    def _note_reusable(self, pod: Object, container: Object, cpus: CPUSet) -> None:
        """Notes which CPUs of the pod's init containers, which end, its other containers may have."""
        uid = pod_spec.uid_of(pod)
        before = self._reusable[1] if self._reusable[0] == uid else frozenset()
        ends = container in pod_spec.init_containers(pod) and not is_sidecar(container)
        self._reusable = uid, before | cpus if ends else before - cpus

    def _release(self, pod: str, name: str) -> None:
        """Takes a container's CPUs back; those of a whole pod once the last of its containers is gone."""
        of_pod, whole = self._state.entries[pod], self._state.pods.get(pod)
        cpus = of_pod.pop(name)
        for siblings in of_pod.values():
            cpus -= siblings
        if not of_pod:
            del self._state.entries[pod]
            self._state.pods.pop(pod, None)
        if whole is None or not of_pod:
            self._state.shared |= cpus if whole is None else whole
        self.save()

    def save(self) -> None:
        self._files.write(self._path, cpu_manager_state.encode(self._state, self._formats), synced=True)


def _take(available: CPUSet, count: int) -> CPUSet:
    """The lowest numbers are taken first. Raises DeviceError."""
    if len(available) < count:
        raise DeviceError(
            f"not enough cpus available to satisfy request: requested={count}, available={len(available)}"
        )
    return frozenset(sorted(available)[:count])


def _exclusive(pod: Object, container: Object) -> int:
    """Containers have whole CPUs for themselves, and only in a Guaranteed pod."""
    if pod_spec.qos_class(pod) != "Guaranteed" or not may_have_some_alone(pod, container):
        return 0
    return _integral(container)


def _alone(pod: Object, container: Object) -> dict[str, int]:
    count = _exclusive(pod, container)
    return {"cpu": count} if count else {}


def _whole(pod: Object) -> int:
    """CPUs that a Guaranteed pod asks for as a whole; 0 if these are no whole ones."""
    return _integral(pod["spec"]) if pod_spec.qos_class(pod) == "Guaranteed" else 0


def _integral(asking: Object) -> int:
    amount = pod_spec.requests_of(asking).get("cpu")
    return 0 if amount is None or amount.milli_value() % 1000 else amount.value()


def _parts(pod: Object, whole: CPUSet) -> dict[str, CPUSet]:
    def take(left: CPUSet, container: Object) -> CPUSet | None:
        count = _exclusive(pod, container)
        return _take(left, count) if count else None

    return divided(pod, whole, take, lambda left, part: left - part)

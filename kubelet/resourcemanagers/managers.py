"""The managers that give containers resources for themselves, as one: their start, their part in admission,
and their look for containers that are gone."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.checkpoints.memory_manager_state import Block
from kubeskew.kubelet.resourcemanagers.cpu import CPUManager
from kubeskew.kubelet.resourcemanagers.memory import MemoryManager

_RECONCILE_SECONDS = 10.0  # cpuManagerReconcilePeriod


class ResourceManagers:
    """The CPU manager, and the memory manager where the release has one."""

    def __init__(
        self,
        managers: Sequence[CPUManager | MemoryManager],
        clock: Clock,
        active: Callable[[], Mapping[str, Set[str]]],
    ) -> None:
        """`active` returns the containers of the node's active pods by UID."""
        self._managers = managers
        self._clock = clock
        self._active = active
        self._sources_ready = False

    def cpus_of(self, pod: str, container: str) -> list[int]:
        return sorted(cpu for each in self._cpus() for cpu in each.cpus_of(pod, container))

    def memory_of(self, pod: str, container: str) -> list[Block]:
        return [block for each in self._memories() for block in each.memory_of(pod, container)]

    def allocatable_cpus(self) -> list[int]:
        return sorted(cpu for each in self._cpus() for cpu in each.allocatable)

    def allocatable_memory(self) -> list[Block]:
        return [block for each in self._memories() for block in each.allocatable]

    def _cpus(self) -> Iterator[CPUManager]:
        return (each for each in self._managers if isinstance(each, CPUManager))

    def _memories(self) -> Iterator[MemoryManager]:
        return (each for each in self._managers if isinstance(each, MemoryManager))

    def start(self) -> None:
        """Restores all checkpoints. Raises CheckpointError, and the kubelet does not start."""
        for manager in self._managers:
            manager.start()

    def sources_ready(self) -> None:
        """Called once all pods found at the kubelet's start have been admitted or rejected."""
        self._sources_ready = True

    def admit(self, pod: Object) -> None:
        """Gives the pod's containers what they are to have for themselves. Raises DeviceError."""
        self._collect()
        for manager in self._managers:
            manager.allocate(pod)

    async def run(self) -> None:
        """Takes back what containers had that are gone, again and again, until cancelled."""
        while any(manager.is_static for manager in self._managers):
            await self._clock.sleep(_RECONCILE_SECONDS)
            self._collect()

    def _collect(self) -> None:
        if self._sources_ready:
            active = self._active()
            for manager in self._managers:
                manager.collect(active)

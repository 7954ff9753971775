"""The managers that give containers resources for themselves, as one: their start, their part in admission,
and their look for containers that are gone."""

from collections.abc import Callable, Mapping, Sequence, Set

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
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

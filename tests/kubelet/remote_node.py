"""A container runtime of the machine for tests: `kubeskew cri` on acted containers, in this process.

Its socket and streams are real, and so is the clock.
"""

import asyncio
import contextlib
import tempfile
from pathlib import Path

from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.kubelet.containers.remote.runtime import RemotePlace, RemoteRuntime
from kubeskew.kubelet.containers.simulated.runtime import SimulatedImages, SimulatedRuntime
from kubeskew.kubelet.cri_service import CRIService
from kubeskew.kubelet.files import UNJOURNALLED
from kubeskew.kubelet.runtimes import NodeRuntime


class ServedRuntime:
    """A runtime at a socket, which can go and come back; what runs in it goes on."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = SystemClock()
        self.entropy = SeededEntropy(7)
        self._short = tempfile.TemporaryDirectory(prefix="ks-")  # a socket's path has to be short
        self.socket = Path(self._short.name) / "cri.sock"
        self.endpoint = f"unix://{self.socket}"
        self.service: CRIService | None = None

    async def start(self) -> None:
        acted = SimulatedRuntime(self.directory / "acted", "machine", self.clock, self.entropy)
        self.acted = acted
        self.service = CRIService(
            *(NodeRuntime(acted, SimulatedImages()), self.directory, self.directory / "cdi"),
            *(UNJOURNALLED, self.clock, self.entropy),
        )
        await self.service.start(self.socket)

    @property
    def listeners(self) -> int:
        """The number of clients that follow events."""
        return len(self.service._runtime._listeners) if self.service is not None else 0

    async def stop(self) -> None:
        if self.service is not None:
            await self.service.stop()
            self.service = None

    async def close(self) -> None:
        await self.stop()
        self._short.cleanup()


class RemoteNode:
    """A node's client of that runtime, as its kubelet has it."""

    def __init__(self, served: ServedRuntime, name: str = "node-1", *, follows_events: bool = False) -> None:
        root = served.directory / "nodes" / name
        place = RemotePlace(root / "remote", root / "logs", root / "kubelet" / "seccomp", "127.0.0.1")
        self.place, self.clock = place, served.clock
        self.runtime = RemoteRuntime(
            *(served.endpoint, name, place, served.clock), follows_events=follows_events
        )
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self.runtime.load()
        self._running = asyncio.create_task(self.runtime.run())

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running
            self._running = None

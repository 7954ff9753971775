"""A node whose containers are processes of this machine, with the machine's own programs in them."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from until import until

from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.kubelet.containers.host.image_service import HostImages
from kubeskew.kubelet.containers.host.images.store import ImageSource, ImageStore
from kubeskew.kubelet.containers.host.runtime import HostRuntime
from kubeskew.kubelet.containers.runtime_service import (
    ContainerConfig,
    Mount,
    PodSandboxConfig,
)
from kubeskew.kubelet.containers.sandbox import Container, Sandbox

IMAGE = "machine:1"
# A root of nothing but mounts: the machine's shell, tools and Python.
MACHINE = [
    Mount(path, Path(path), read_only=True)
    for path in dict.fromkeys(["/bin", "/lib", "/lib64", "/usr", sys.base_prefix])
    if Path(path).is_dir()
]
PYTHON = str(Path(sys.executable).resolve())


class HostNode:
    """One node with a runtime that can be made again; its state may be that of an earlier test."""

    def __init__(self, directory: Path, state: Path, **options: Any) -> None:
        self.directory, self.state = directory, state
        self.options = options
        (directory / "root" / "etc").mkdir(parents=True)
        self.runtime = self._make()
        self.changed: list[str] = []
        self._following: asyncio.Task[None] | None = None

    def _make(self) -> HostRuntime:
        self.images = HostImages(
            self.state / "images.json",
            ImageStore(self.directory / "store"),
            {"machine*": ImageSource(path=self.directory / "root")},
        )
        return HostRuntime(
            self.state / "node", "node-1", self.images, SystemClock(), SeededEntropy(), **self.options
        )

    async def load(self) -> None:
        await self.runtime.load()
        self.runtime.on_change = self.changed.append
        self._following = asyncio.ensure_future(self.runtime.run())
        await self.images.pull_image(IMAGE)

    async def leave(self) -> None:
        """Ends the runtime as a kubelet that is killed does."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        self.runtime.disconnect()

    async def clear(self) -> None:
        for sandbox in self.runtime.sandboxes():
            await self.runtime.remove_pod_sandbox(sandbox.pod_uid)

    async def again(self) -> None:
        await self.leave()
        self.runtime = self._make()
        await self.load()

    async def pod(self, uid: str = "uid-1", **options: Any) -> Sandbox:
        name = f"pod-{uid}"
        config = PodSandboxConfig(uid, "default", name, name, self.directory / "logs" / uid, **options)
        return await self.runtime.run_pod_sandbox(config)

    async def start(
        self, sandbox: Sandbox, *words: str, mounts: Sequence[Mount] = (), name: str = "main", **options: Any
    ) -> Container:
        config = ContainerConfig(name, IMAGE, [*words], mounts=[*MACHINE, *mounts], **options)
        return await self.runtime.start_container(sandbox, config)

    async def shell(self, sandbox: Sandbox, script: str, **options: Any) -> Container:
        return await self.start(sandbox, "/bin/sh", "-c", script, **options)

    async def ended(self, container: Container) -> int:
        """Waits for a container's end; its exit code."""
        await until(lambda: container.ends_at is not None)
        return container.exit_code

    async def output(self, sandbox: Sandbox, script: str, **options: Any) -> str:
        """All that a script writes."""
        container = await self.shell(sandbox, script, **options)
        await self.ended(container)
        return self.log(sandbox, container)

    def log(self, sandbox: Sandbox, container: Container) -> str:
        return b"".join(line.data for line in self.runtime.logs(sandbox, container)).decode()

    async def says(self, sandbox: Sandbox, container: Container, text: str) -> None:
        await until(lambda: text in self.log(sandbox, container))


NodeMaker = Callable[..., Awaitable[HostNode]]

"""A driver's controller in a process of its own, apart from the driver's plugins on the nodes."""

import asyncio
from collections.abc import Callable
from typing import Any

from kubeskew.apimachinery.process.component import ComponentContext
from kubeskew.kubelet.drivers.generation import ControllerParts, ReadyCheck
from kubeskew.kubelet.drivers.generations import generations_of
from kubeskew.kubelet.drivers.reload import follow
from kubeskew.kubelet.drivers.settings import ControllerSettings, DriverFile, DriverNode


class ControllerHost:
    """The controller's process. `read` returns the driver's nodes; it is called again on SIGHUP."""

    def __init__(self, ctx: ComponentContext, driver: str, read: Callable[[], DriverFile]) -> None:
        self._ctx = ctx
        self._driver = driver
        self._read = read
        self._nodes: dict[str, DriverNode] = {}
        self._revision = 0
        self._reload = asyncio.Event()
        self._ready: ReadyCheck = lambda: "the controller has not begun"

    async def run(self) -> None:
        """Runs until the process has to stop; claims and their allocations stay."""
        health = self._ctx.health
        health.add_check("controller", lambda: self._ready())
        health.add_page("/driver", self.state)
        self._ctx.reloads.append(self._reload.set)
        await self.apply(self._read())
        following = follow(self._reload, lambda: self.apply(self._read()))
        tasks = [
            asyncio.create_task(following, name="driver file"),
            asyncio.create_task(self._control(), name="controller"),
        ]
        try:
            await self._ctx.stop.wait()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def apply(self, file: DriverFile) -> None:
        """Allocates for these nodes, and no others, with these devices."""
        self._nodes = {node.name: node for node in file.nodes}
        self._revision = file.revision

    def state(self) -> dict[str, Any]:
        """The page /driver shows `{driver, revision}`."""
        return {"driver": self._driver, "revision": self._revision}

    async def _control(self) -> None:
        """Runs the controller of the driver's release; the first entry's settings count."""
        chosen = [node.controller for node in self._nodes.values() if node.controller is not None]
        settings = chosen[0] if chosen else ControllerSettings()
        self._ready = lambda: True  # the API server may be down, or may not serve what drivers allocate
        parts = ControllerParts(self._ctx, self._driver, settings, lambda: self._nodes, self._set_ready)
        await generations_of(self._ctx.options.emulated_version).control(parts)

    def _set_ready(self, ready: ReadyCheck) -> None:
        self._ready = ready

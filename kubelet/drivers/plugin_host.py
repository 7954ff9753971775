"""A device plugin on all its nodes, in one process."""

import asyncio
from collections.abc import Callable
from typing import Any

from kubeskew.apimachinery.process.component import ComponentContext
from kubeskew.kubelet.drivers.device_plugin import ExampleDevicePlugin
from kubeskew.kubelet.drivers.plugin_settings import PluginFile
from kubeskew.kubelet.drivers.reloading import follow


class PluginHost:
    """The plugin's process. `read` returns the nodes; it is called again on SIGHUP."""

    def __init__(self, ctx: ComponentContext, resource: str, read: Callable[[], PluginFile]) -> None:
        self._ctx = ctx
        self._resource = resource
        self._read = read
        self._plugins: dict[str, tuple[ExampleDevicePlugin, asyncio.Task[None]]] = {}
        self._revision = 0
        self._reload = asyncio.Event()

    async def run(self) -> None:
        """Runs until the process has to stop."""
        health = self._ctx.health
        health.add_check("file", lambda: True)  # nodes may be down; the page /driver shows each
        health.add_page("/driver", self.state)
        self._ctx.reloads.append(self._reload.set)
        await self.apply(self._read())
        following = follow(self._reload, lambda: self.apply(self._read()))
        reloading = asyncio.create_task(following, name="device plugin file")
        try:
            await self._ctx.stop.wait()
        finally:
            reloading.cancel()
            await asyncio.gather(reloading, return_exceptions=True)
            await self.apply(PluginFile(()))

    async def apply(self, file: PluginFile) -> None:
        """Serves these nodes, and no others, with these devices and switches."""
        wanted = {node.name: node for node in file.nodes}
        leaving = [name for name in self._plugins if name not in wanted]
        for name, node in wanted.items():
            if name in self._plugins and self._plugins[name][0].node.directory == node.directory:
                self._plugins[name][0].apply(node)
                continue
            if name in self._plugins:
                await self._leave(name)
            plugin = ExampleDevicePlugin(self._resource, node, self._ctx.environment.clock)
            self._plugins[name] = plugin, asyncio.create_task(plugin.run(), name=f"plugin of {name}")
        await asyncio.gather(*map(self._leave, leaving))
        self._revision = file.revision

    async def _leave(self, name: str) -> None:
        _, task = self._plugins.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def state(self) -> dict[str, Any]:
        """`{revision, nodes: {name: {registered, shown, devices}}}`."""
        return {
            "resource": self._resource,
            "revision": self._revision,
            "nodes": {
                name: {"registered": plugin.registered, "shown": plugin.shown, "devices": plugin.devices()}
                for name, (plugin, _) in self._plugins.items()
            },
        }

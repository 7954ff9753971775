"""Registers DRA drivers' plugins, and wipes the slices of drivers that left.

pkg/kubelet/cm/dra/plugin: registration.go up to 1.33, dra_plugin_manager.go since.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kubeskew.kubelet.dra.grpc_versions import ServiceFeatures
from kubeskew.kubelet.dra.plugin import DRAPlugin, PluginRegistry
from kubeskew.kubelet.dra.slices import SliceWiper
from kubeskew.kubelet.plugins.handling import PluginRefusedError

if TYPE_CHECKING:
    from kubeskew.kubelet.dra.classic_plugin import ClassicSocketPlugin
    from kubeskew.kubelet.dra.drafted_plugin import DraftedSocketPlugin
    from kubeskew.kubelet.dra.health import HealthMonitor
    from kubeskew.kubelet.dra.node_resources import NodeResources
    from kubeskew.kubelet.dra.socket_plugin import SocketPlugin

log = logging.getLogger(__name__)


class DRAPluginHandler:
    """Implements `PluginHandler` for the type DRAPlugin. `stop` at the end."""

    def __init__(
        self,
        plugins: PluginRegistry,
        wiper: SliceWiper,
        rules: ServiceFeatures,
        connect: "Callable[[str, str, str], SocketPlugin | ClassicSocketPlugin | DraftedSocketPlugin]",
        health: "HealthMonitor | None",
        resources: "NodeResources | None" = None,
    ) -> None:
        """`connect` makes the plugin of a driver, an endpoint and a service; without `health` no health is
        followed, and without `resources` no driver is asked for named resources."""
        self._plugins = plugins
        self._wiper = wiper
        self._rules = rules
        self._connect = connect
        self._health = health
        self._resources = resources
        self._sockets: dict[tuple[str, str], SocketPlugin | ClassicSocketPlugin | DraftedSocketPlugin] = {}
        self._tasks: dict[tuple[str, str], list[asyncio.Task[None]]] = {}

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        self._chosen(self._rules.invalid, name, endpoint, versions)

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        service = self._chosen(self._rules.failed, name, endpoint, versions)
        if self._rules.several and (name, endpoint) in self._sockets:
            raise PluginRefusedError(self._rules.taken.format(name=name, endpoint=endpoint))
        if not self._rules.several:
            for other in [key for key in self._sockets if key[0] == name]:
                await self._drop(*other)
        plugin = self._connect(name, endpoint, service)
        self._sockets[name, endpoint] = plugin
        self._plugins.register(plugin)
        following = self._follow(plugin)
        tasks = [asyncio.create_task(following, name=f"connection to {name} at {endpoint}")]
        if self._health is not None:
            watching = self._health.follow(name, plugin.channel, versions)
            tasks.append(asyncio.create_task(watching, name=f"health of {name} at {endpoint}"))
        for task in tasks:
            task.add_done_callback(_tell_failure)
        self._tasks[name, endpoint] = tasks
        if self._resources is not None:
            self._resources.add_plugin(name, plugin.channel)
        log.info("registered driver %s at %s: %s", name, endpoint, service)
        self._sync(name)

    async def deregister(self, name: str, endpoint: str) -> None:
        if (name, endpoint) in self._sockets:
            if self._resources is not None:
                self._resources.remove_plugin(name)
            await self._drop(name, endpoint)
            log.info("driver %s at %s left", name, endpoint)
            self._sync(name)

    def _chosen(self, text: str, name: str, endpoint: str, versions: Sequence[str]) -> str:
        try:
            return self._rules.choose(versions)
        except PluginRefusedError as error:
            raise PluginRefusedError(text.format(name=name, endpoint=endpoint, error=error)) from error

    async def _drop(self, name: str, endpoint: str) -> None:
        plugin = self._sockets.pop((name, endpoint))
        self._plugins.deregister(plugin)
        tasks = self._tasks.pop((name, endpoint))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await plugin.close()

    async def _follow(self, plugin: "SocketPlugin | ClassicSocketPlugin | DraftedSocketPlugin") -> None:
        await plugin.follow_connection(lambda: self._sync(plugin.driver))

    def _sync(self, driver: str) -> None:
        """Keeps the slices of a driver that can be called; else they are wiped, unless it is back in time."""
        if any(self._usable(plugin) for plugin in self._plugins.of(driver)):
            self._wiper.driver_came(driver)
        else:
            self._wiper.driver_left(driver)

    def _usable(self, plugin: DRAPlugin) -> bool:
        return plugin.connected or not self._rules.follows_connections

    async def stop(self) -> None:
        """Closes all connections, without wiping."""
        await asyncio.gather(*(self._drop(*key) for key in [*self._sockets]))


def _tell_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s ended: %r", task.get_name(), error)

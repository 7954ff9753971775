"""Registers DRA drivers' plugins, and wipes the ResourceSlices of drivers that left.

Sources: pkg/kubelet/cm/dra/plugin: registration.go up to 1.33, dra_plugin_manager.go since.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.kubelet.dra.grpc_versions import ServiceFeatures
from kubeskew.kubelet.dra.plugin import PluginRegistry, RegisteredPlugin
from kubeskew.kubelet.plugins.plugin_handler import PluginRefusedError

if TYPE_CHECKING:
    from kubeskew.kubelet.dra.generation import ResourcePublisher
    from kubeskew.kubelet.dra.health import HealthMonitor
    from kubeskew.kubelet.dra.socket_plugin import PluginConnection

log = logging.getLogger(__name__)

_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 0.1, 1.0


class SliceWiper:
    """Deletes slices of this node that have no driver (DRAPluginManager.wipeResourceSlices)."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        slices: Ref,
        node_name: str,
        delay: float,
        *,
        active: bool = True,
    ) -> None:
        """With `active` False slices are not the drivers' own."""
        self._active = active
        self._client = client
        self._clock = clock
        self._slices = slices
        self._node_name = node_name
        self._delay = delay
        self._pending: dict[str, asyncio.Task[None]] = {}

    async def wipe(self, driver: str = "") -> None:
        """Deletes the slices of a driver, or of all; retries until it is done."""
        selector = f"spec.nodeName={self._node_name}" + (f",spec.driver={driver}" if driver else "")
        seconds = _FIRST_RETRY_SECONDS
        while True:
            try:
                await self._client.delete_collection(self._slices, field_selector=selector)
            except StatusError as error:
                if error.code == 404:
                    return
                log.info("deleting ResourceSlices failed, retrying: %s", error)
            except CONNECTION_ERRORS as error:
                log.info("deleting ResourceSlices failed, retrying: %s", error)
            else:
                return
            await self._clock.sleep(seconds)
            seconds = min(seconds * 2, _LONGEST_RETRY_SECONDS)

    def driver_left(self, driver: str) -> None:
        """Wipes the driver's slices unless it is back in time; a wipe that is pending keeps its time."""
        if driver in self._pending or not self._active:
            return
        self._pending[driver] = asyncio.create_task(self._wipe_later(driver), name=f"wipe {driver}")

    def driver_came(self, driver: str) -> None:
        pending = self._pending.pop(driver, None)
        if pending is not None:
            pending.cancel()

    async def stop(self) -> None:
        pending = [*self._pending.values()]
        self._pending.clear()
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    async def _wipe_later(self, driver: str) -> None:
        await self._clock.sleep(self._delay)
        await self.wipe(driver)
        self._pending.pop(driver, None)


class DRAPluginHandler:
    """Implements `PluginHandler` for the type DRAPlugin. `stop` at the end."""

    def __init__(
        self,
        plugins: PluginRegistry[Any],
        wiper: SliceWiper,
        rules: ServiceFeatures,
        connect: "Callable[[str, str, str], PluginConnection]",
        health: "HealthMonitor | None",
        publisher: "ResourcePublisher | None" = None,
    ) -> None:
        """`connect` makes the plugin of a driver, an endpoint and a service; without `health` no health is
        followed, and without `publisher` no driver is asked for its resources."""
        self._plugins = plugins
        self._wiper = wiper
        self._rules = rules
        self._connect = connect
        self._health = health
        self._publisher = publisher
        self._sockets: dict[tuple[str, str], PluginConnection] = {}
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
            task.add_done_callback(_log_failure)
        self._tasks[name, endpoint] = tasks
        if self._publisher is not None:
            self._publisher.add_plugin(name, plugin.channel)
        log.info("registered driver %s at %s: %s", name, endpoint, service)
        self._sync(name)

    async def deregister(self, name: str, endpoint: str) -> None:
        if (name, endpoint) in self._sockets:
            if self._publisher is not None:
                self._publisher.remove_plugin(name)
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

    async def _follow(self, plugin: "PluginConnection") -> None:
        await plugin.follow_connection(lambda: self._sync(plugin.driver))

    def _sync(self, driver: str) -> None:
        """Keeps the slices of a driver that can be called; else they are wiped, unless it is back in time."""
        if any(self._usable(plugin) for plugin in self._plugins.of(driver)):
            self._wiper.driver_came(driver)
        else:
            self._wiper.driver_left(driver)

    def _usable(self, plugin: RegisteredPlugin) -> bool:
        return plugin.connected or not self._rules.follows_connections

    async def stop(self) -> None:
        """Closes all connections, without wiping."""
        await asyncio.gather(*(self._drop(*key) for key in [*self._sockets]))


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s ended: %r", task.get_name(), error)

"""DRA on one node.

The manager with its checkpoint, the drivers that register their plugins, those of the node's configuration,
and the slices of both.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from apimachinery.client.refs import dra_refs
from apimachinery.client.rest import APIClient
from apimachinery.component import World
from kubelet.behaviour import Behaviour
from kubelet.devices import NoDevices, PodDevices
from kubelet.dra.checkpoint import CheckpointError, CheckpointFile, codec_for
from kubelet.dra.claims import ClaimCache
from kubelet.dra.driver import ExampleDriver
from kubelet.dra.handler import DRAPluginHandler
from kubelet.dra.health import FILE_NAME, HealthCache, HealthMonitor
from kubelet.dra.manager import DRAManager
from kubelet.dra.plugin import DRAPlugin, PluginRegistry
from kubelet.dra.services import health_versions, rules_for
from kubelet.dra.slices import SlicePublisher, SliceWiper
from kubelet.dra.texts import CLASSIC, MODERN
from kubelet.layout import NodeLayout
from kubelet.metrics import KubeletMetrics
from kubelet.node_config import DriverConfig, NodeConfig
from kubelet.plugins.handling import PluginHandler

if TYPE_CHECKING:
    from kubelet.dra.socket_plugin import SocketPlugin

log = logging.getLogger(__name__)

Object = dict[str, Any]

# Before, claims are allocated by drivers' own controllers: there is nothing for the example driver to
# publish.
_OLDEST_WITH_SLICES = 31


class NodeDRA:
    """The devices of one node. `restore`, `start`, `stop`."""

    def __init__(
        self,
        config: NodeConfig,
        layout: NodeLayout,
        world: World,
        behaviour: Behaviour,
        client: APIClient,
        metrics: KubeletMetrics,
        health_changed: Callable[[Collection[str]], None] = lambda _pod_uids: None,
    ) -> None:
        """`health_changed` is told of pods whose devices' health is another now."""
        self._config = config
        self._layout = layout
        self._clock = world.clock
        self._client = client
        self._metrics = metrics
        self._health_changed = health_changed
        self._refs = dra_refs(world.version)
        self._drivers: dict[str, RunningDriver] = {}
        self._node: Object = {}
        self._wiped = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._started = False
        self._offers_slices = behaviour.dynamic_resources and world.version.minor >= _OLDEST_WITH_SLICES
        self._texts = texts = MODERN if behaviour.dra_validates_first else CLASSIC
        self.plugins = PluginRegistry(texts.unregistered)
        self.wiper = SliceWiper(
            client, world.clock, self._refs.slices, config.name, behaviour.wiping_delay_seconds
        )
        self._cache = ClaimCache(CheckpointFile(layout.kubelet, codec_for(world.version)))
        health = HealthCache(layout.kubelet / FILE_NAME, world.clock)
        versions = health_versions(world.version) if behaviour.resource_health else ()
        self._handler = DRAPluginHandler(
            self.plugins,
            self.wiper,
            rules_for(world.version),
            self._connect,
            HealthMonitor(health, world.clock, versions, self._tell_health) if versions else None,
        )
        self._manager: DRAManager | None = None
        if behaviour.dynamic_resources:
            self._manager = DRAManager(
                config.name,
                client,
                self._refs.claims,
                self.plugins,
                self._cache,
                health,
                behaviour,
                texts,
                world.clock,
                metrics,
            )

    @property
    def devices(self) -> PodDevices:
        """What the pod lifecycle works with."""
        return self._manager or NoDevices()

    @property
    def handlers(self) -> Mapping[str, PluginHandler]:
        """By type of plugin; before 1.31 drivers speak otherwise."""
        return {"DRAPlugin": self._handler} if self._offers_slices else {}

    @property
    def published(self) -> bool:
        """Whether the slices of all drivers are at the API server."""
        return self._started and all(driver.publisher.published for driver in self._drivers.values())

    def prepared(self) -> dict[str, list[Object]]:
        """Driver → the claims it has prepared, with their devices."""
        found: dict[str, list[Object]] = {name: [] for name in self._drivers}
        for info in self._cache.infos():
            for driver, devices in info.devices.items():
                if info.prepared or devices:
                    entry = {**info.ref._asdict(), "devices": [device.as_json() for device in devices]}
                    found.setdefault(driver, []).append(entry)
        return found

    def restore(self) -> None:
        """Take over what the last kubelet left; raises CheckpointError, and the kubelet does not start."""
        if self._manager is None:
            return
        try:
            self._cache.load()
        except CheckpointError as error:
            raise CheckpointError(self._texts.checkpoint.format(error=error)) from error

    async def start(self, node: Object) -> None:
        """Have the node's own drivers, and wipe what is left of earlier ones before they publish."""
        self._node = node
        if self._offers_slices:
            self._spawn(self._wipe(), "wipe")
        await self.have(self._config.drivers)
        self._started = True

    async def have(self, drivers: Sequence[DriverConfig]) -> None:
        """Start and stop drivers so that there are these."""
        if drivers and not self._offers_slices:
            log.warning("node %s: drivers need DynamicResourceAllocation and 1.31", self._config.name)
            return
        wanted = {config.name: config for config in drivers}
        for name, running in [*self._drivers.items()]:
            if wanted.get(name) != running.config:
                del self._drivers[name]
                await running.stop()
                self.deregister(running.plugin)
        for config in drivers:
            if config.name not in self._drivers:
                self._drivers[config.name] = self._started_driver(config)

    def reconcile(self, active_pods: Callable[[], set[str]]) -> None:
        """Begin to give back what pods left behind; only once all pods are known."""
        if self._manager is not None:
            self._spawn(self._manager.reconcile(active_pods), "reconcile")

    def register(self, plugin: DRAPlugin) -> None:
        """A driver's plugin is there."""
        self.plugins.register(plugin)
        self.wiper.driver_came(plugin.driver)

    def deregister(self, plugin: DRAPlugin) -> None:
        """A driver's plugin left; its slices go too if no other comes in time."""
        self.plugins.deregister(plugin)
        if not self.plugins.of(plugin.driver):
            self.wiper.driver_left(plugin.driver)

    async def stop(self) -> None:
        """Stop drivers and loops; slices, claims and containers stay as they are."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(driver.stop() for driver in self._drivers.values()))
        await self._handler.stop()
        await self.wiper.stop()

    def _connect(self, driver: str, endpoint: str, service: str) -> "SocketPlugin":
        from kubelet.dra.socket_plugin import SocketPlugin  # brings grpc, which the first socket needs anyway

        return SocketPlugin(driver, endpoint, service, self._clock, self._metrics)

    def _tell_health(self, driver: str, devices: Sequence[tuple[str, str]]) -> None:
        news = set(devices)
        users: set[str] = set()
        for info in self._cache.infos():
            if any((one.pool, one.device) in news for one in info.devices.get(driver) or ()):
                users |= info.pod_uids
        if users:
            self._health_changed(users)

    def _started_driver(self, config: DriverConfig) -> "RunningDriver":
        plugin = ExampleDriver(
            config,
            self._config.name,
            self._layout.plugin(config.name),
            self._layout.cdi,
            self._client,
            self._refs.claims,
        )
        publisher = SlicePublisher(
            self._client, self._clock, self._refs.slices, config.name, self._node, plugin.devices()
        )
        self.register(plugin)
        task = asyncio.create_task(self._publish(publisher), name=f"slices of {config.name}")
        return RunningDriver(config, plugin, publisher, task)

    async def _wipe(self) -> None:
        # Upstream too wipes at its start: better to offer nothing than pods that wait for a driver in vain.
        await self.wiper.wipe()
        self._wiped.set()

    async def _publish(self, publisher: SlicePublisher) -> None:
        await self._wiped.wait()
        await publisher.run()

    def _spawn(self, work: Coroutine[Any, Any, None], what: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=f"DRA {what} of {self._config.name}"))


class RunningDriver(NamedTuple):
    """A driver of this process and what it does."""

    config: DriverConfig
    plugin: ExampleDriver
    publisher: SlicePublisher
    publishing: asyncio.Task[None]

    async def stop(self) -> None:
        """The driver's process ends: its slices stay until the kubelet wipes them."""
        self.publishing.cancel()
        await asyncio.gather(self.publishing, return_exceptions=True)
        await self.publisher.stop()

"""DRA on one node: the manager with its checkpoint, the registration of drivers, and the wiping of slices
without a driver."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kubeskew.apimachinery.client.refs import dra_refs
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.faults.injector import Injector
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.device_managers import NoDevices, PodDevices
from kubeskew.kubelet.dra.claims import ClaimCache, ClaimInfo
from kubeskew.kubelet.dra.generation import ClaimManager, NodeParts
from kubeskew.kubelet.dra.generations import generation_of
from kubeskew.kubelet.dra.health import FILE_NAME, HealthCache, HealthMonitor
from kubeskew.kubelet.dra.plugin import PluginRegistry
from kubeskew.kubelet.dra.plugin_manager import DRAPluginHandler, SliceWiper
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.files import UNJOURNALLED, StateFiles
from kubeskew.kubelet.journal import MarkedChannel
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.node.config import NodeConfig, NodeLayout
from kubeskew.kubelet.plugins.plugin_handler import PluginHandler

if TYPE_CHECKING:
    from kubeskew.kubelet.dra.socket_plugin import PluginConnection
    from kubeskew.kubelet.protocols.message_sockets import Channel


_SYNC_SECONDS = 60.0  # the kubelet's syncFrequency


class NodeDRA:
    """DRA on one node: `restore`, `start`, `stop`."""

    def __init__(
        self,
        config: NodeConfig,
        layout: NodeLayout,
        environment: Environment,
        features: KubeletFeatures,
        client: APIClient,
        metrics: KubeletMetrics,
        health_changed: Callable[[Collection[str]], None] = lambda _pod_uids: None,
        warn: Callable[[str, str], None] = lambda _reason, _text: None,
        files: StateFiles = UNJOURNALLED,
        injector: Injector | None = None,
    ) -> None:
        """`health_changed` is called with pods whose devices' health changed; `warn` makes an event of the
        node of a reason and a text."""
        self._config = config
        self._files = files
        self._clock = environment.clock
        self._metrics = metrics
        self._health_changed = health_changed
        self._wiped = False
        self._wiping: asyncio.Task[None] | None = None
        self._on = features.dynamic_resources
        self._generation = generation = generation_of(environment.gates)
        self._drivers_publish = self._on and generation.drivers_publish
        refs, dra = dra_refs(environment.version), generation.features
        self._injector = injector
        self.plugins: PluginRegistry[Any] = PluginRegistry(dra.texts.unregistered)
        self.wiper = SliceWiper(
            client,
            environment.clock,
            refs.slices,
            config.name,
            features.wiping_delay_seconds,
            active=self._drivers_publish,
        )
        self._cache = ClaimCache(generation.checkpoint(layout.kubelet, files))
        asks = dra.health if features.dra_reports_health else None
        self._health = health = HealthCache(layout.kubelet / FILE_NAME, environment.clock, files, asks)
        self._asks_health = asks is not None
        parts = NodeParts(
            *(config.name, client, refs, self.plugins, self._cache, health),
            *(features, environment.clock, metrics, warn),
        )
        self._publisher = generation.publisher(parts) if self._on else None
        self._handler = DRAPluginHandler(
            self.plugins,
            self.wiper,
            generation.services,
            self._marked,
            HealthMonitor(health, environment.clock, asks, self._on_health_change) if asks else None,
            self._publisher,
        )
        self._manager: ClaimManager | None = generation.manager(parts) if self._on else None

    @property
    def devices(self) -> PodDevices:
        return self._manager or NoDevices()

    @property
    def handlers(self) -> Mapping[str, PluginHandler]:
        return {self._generation.plugin_type: self._handler} if self._on else {}

    @property
    def ready(self) -> bool:
        """Slices published from now on stay, because those of earlier drivers are wiped."""
        return self._wiped or not self._drivers_publish

    def registered(self) -> list[str] | None:
        """None means that the kubelet takes no plugins."""
        if not self._on:
            return None
        return sorted({plugin.driver for plugin in self.plugins.all()})

    def resources(self) -> dict[str, Object]:
        return self._publisher.state() if self._publisher is not None else {}

    def claim(self, namespace: str, name: str) -> ClaimInfo | None:
        return self._cache.get(namespace, name)

    def prepared(self) -> dict[str, list[Object]]:
        """Claims stand under their drivers' names, with their devices."""
        found: dict[str, list[Object]] = {}
        for info in self._cache.infos():
            for driver, devices in info.devices.items():
                if info.prepared or devices:
                    entry = {**info.ref._asdict(), "devices": [device.as_json() for device in devices]}
                    found.setdefault(driver, []).append(entry)
        return found

    def restore(self) -> None:
        """Restores what the last kubelet left; raises CheckpointError, and the kubelet does not start."""
        if not self._on:
            return
        if self._asks_health:
            self._health.load()
        self._cache.load()

    def start(self) -> None:
        """Wipes the slices of earlier drivers, before plugins register; 1.30 begins to publish."""
        if self._publisher is not None:
            self._publisher.start()
        if self._drivers_publish:
            self._wiping = asyncio.create_task(self._wipe(), name=f"DRA wipe of {self._config.name}")

    async def reconcile(self, active_pods: Callable[[], set[str]]) -> None:
        """Unprepares claims of pods that are gone, until cancelled; only while all pods are known."""
        if self._manager is not None:
            health = [self._look_again()] if self._asks_health else []
            await asyncio.gather(self._manager.reconcile(active_pods), *health)

    async def stop(self) -> None:
        """Stops calling drivers; slices, claims and containers stay as they are."""
        if self._wiping is not None:
            self._wiping.cancel()
            await asyncio.gather(self._wiping, return_exceptions=True)
        if self._publisher is not None:
            await self._publisher.stop()
        await self._handler.stop()
        await self.wiper.stop()

    def _marked(self, driver: str, endpoint: str, service: str) -> "PluginConnection":
        """Calls of the plugin are marked in the node's journal, and fail as the injected faults say."""
        plugin = self._connect(driver, endpoint, service)
        channel: Channel = MarkedChannel(plugin.channel, self._files)
        if self._injector is not None:
            from kubeskew.kubelet.dra.socket_plugin import (
                FaultyChannel,  # imports grpc, which the plugin needs
            )

            channel = FaultyChannel(channel, driver, self._injector)
        plugin.channel = channel
        return plugin

    def _connect(self, driver: str, endpoint: str, service: str) -> "PluginConnection":
        return self._generation.connection(driver, endpoint, service, self._clock, self._metrics)

    def _on_health_change(self, driver: str, devices: Sequence[tuple[str, str]]) -> None:
        news = set(devices)
        users: set[str] = set()
        for info in self._cache.infos():
            if any((device.pool, device.device) in news for device in info.devices.get(driver) or ()):
                users |= info.pod_uids
        if users:
            self._health_changed(users)

    async def _look_again(self) -> None:
        """Looks at every pod once a minute, as upstream: the reported health of devices may have expired."""
        while True:
            await self._clock.sleep(_SYNC_SECONDS)
            if users := {uid for info in self._cache.infos() for uid in info.pod_uids}:
                self._health_changed(users)

    async def _wipe(self) -> None:
        # Upstream wipes at its start, too: no devices are better than pods that wait for a driver in vain.
        await self.wiper.wipe()
        self._wiped = True

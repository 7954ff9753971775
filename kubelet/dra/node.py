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
from kubeskew.kubelet.dra.classic_manager import ClassicDRAManager
from kubeskew.kubelet.dra.features import (
    ClassicFeatures,
    DRAFeatures,
)
from kubeskew.kubelet.dra.health import FILE_NAME, HealthCache, HealthMonitor
from kubeskew.kubelet.dra.manager import DRAManager
from kubeskew.kubelet.dra.node_resources import NAMED_RESOURCES, SEMANTIC_RESOURCES, NodeResources
from kubeskew.kubelet.dra.plugin import PluginRegistry
from kubeskew.kubelet.dra.plugin_manager import DRAPluginHandler, SliceWiper
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.files import UNJOURNALLED, StateFiles
from kubeskew.kubelet.journal import MarkedChannel
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.node.config import NodeConfig, NodeLayout
from kubeskew.kubelet.plugins.plugin_handler import PluginHandler

if TYPE_CHECKING:
    from kubeskew.kubelet.dra.classic_manager import ClassicSocketPlugin
    from kubeskew.kubelet.dra.drafted_manager import DraftedDRAManager, DraftedSocketPlugin
    from kubeskew.kubelet.dra.socket_plugin import SocketPlugin
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
        self._client, self._metrics = client, metrics
        self._health_changed = health_changed
        self._refs = dra_refs(environment.version)
        self._wiped = False
        self._wiping: asyncio.Task[None] | None = None
        self._keeps_claims = features.keeps_claims
        self._drafted = features.drafted_claims
        self._takes_plugins = features.dra_registers_plugins
        self._offers_slices = features.dra_publishes_slices
        dra = DRAFeatures.of(environment.gates)
        self._injector = injector
        self.plugins = PluginRegistry(dra.texts.unregistered)
        self.wiper = SliceWiper(
            client,
            environment.clock,
            self._refs.slices,
            config.name,
            features.wiping_delay_seconds,
            active=self._offers_slices,
        )
        self._cache = ClaimCache(dra.checkpoint(layout.kubelet, files))
        asks = dra.health if features.dra_reports_health else None
        self._health = health = HealthCache(layout.kubelet / FILE_NAME, environment.clock, files, asks)
        self._asks_health = asks is not None
        self._resources = self._node_resources(features, warn)
        self._handler = DRAPluginHandler(
            self.plugins,
            self.wiper,
            dra.services,
            self._marked,
            HealthMonitor(health, environment.clock, asks, self._on_health_change) if asks else None,
            self._resources,
        )
        self._manager: DRAManager | ClassicDRAManager | DraftedDRAManager | None = None
        if self._takes_plugins and self._drafted:
            self._manager = _drafted_manager(
                client, self._refs.claims, self.plugins, self._cache, environment.clock
            )
        elif self._takes_plugins and not self._offers_slices:
            rules = ClassicFeatures.of(environment.gates)
            self._manager = ClassicDRAManager(client, self._refs.claims, self.plugins, self._cache, rules)
        elif features.dynamic_resources:
            self._manager = DRAManager(
                config.name,
                client,
                self._refs.claims,
                self.plugins,
                self._cache,
                health,
                features,
                dra.texts,
                environment.clock,
                metrics,
            )

    def _node_resources(
        self, features: KubeletFeatures, warn: Callable[[str, str], None]
    ) -> NodeResources | None:
        if not features.dra_asks_for_resources:
            return None
        return NodeResources(
            *(self._client, self._clock, self._refs.slices, self._config.name),
            SEMANTIC_RESOURCES if features.semantic_parameters else NAMED_RESOURCES,
            lambda text: warn("RefusedNodeResources", text),
        )

    @property
    def devices(self) -> PodDevices:
        return self._manager or NoDevices()

    @property
    def handlers(self) -> Mapping[str, PluginHandler]:
        kind = "ResourcePlugin" if self._drafted else "DRAPlugin"
        return {kind: self._handler} if self._takes_plugins else {}

    @property
    def ready(self) -> bool:
        """Slices published from now on stay, because those of earlier drivers are wiped."""
        return self._wiped or not self._offers_slices

    def registered(self) -> list[str] | None:
        """None means that the kubelet takes no plugins."""
        if not self._takes_plugins:
            return None
        return sorted({plugin.driver for plugin in self.plugins.all()})

    def resources(self) -> dict[str, Object]:
        return self._resources.state() if self._resources is not None else {}

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
        if not self._keeps_claims:
            return
        if self._asks_health:
            self._health.load()
        self._cache.load()

    def start(self) -> None:
        """Wipes the slices of earlier drivers, before plugins register; 1.30 begins to publish."""
        if self._resources is not None:
            self._resources.start()
        if self._offers_slices:
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
        if self._resources is not None:
            await self._resources.stop()
        await self._handler.stop()
        await self.wiper.stop()

    def _marked(
        self, driver: str, endpoint: str, service: str
    ) -> "SocketPlugin | ClassicSocketPlugin | DraftedSocketPlugin":
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

    def _connect(
        self, driver: str, endpoint: str, service: str
    ) -> "SocketPlugin | ClassicSocketPlugin | DraftedSocketPlugin":
        from kubeskew.kubelet.dra.socket_plugin import SocketPlugin

        if self._drafted:
            from kubeskew.kubelet.dra.drafted_manager import DraftedSocketPlugin

            return DraftedSocketPlugin(driver, endpoint, service, self._clock, self._metrics)
        if not self._offers_slices:
            from kubeskew.kubelet.dra.classic_manager import ClassicSocketPlugin

            return ClassicSocketPlugin(driver, endpoint, service, self._clock, self._metrics)
        return SocketPlugin(driver, endpoint, service, self._clock, self._metrics)

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


def _drafted_manager(*arguments: Any) -> "DraftedDRAManager":
    from kubeskew.kubelet.dra.drafted_manager import DraftedDRAManager  # imports grpc

    return DraftedDRAManager(*arguments)

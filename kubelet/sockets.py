"""The sockets that a node's kubelet serves: for device plugins, and for agents that monitor pods' devices."""

import asyncio
import logging

from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.deviceplugins.manager import DevicePluginManager
from kubeskew.kubelet.deviceplugins.serving import DevicePluginServer
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.node.layout import NodeLayout
from kubeskew.kubelet.podresources.listing import FindClaim, Lister
from kubeskew.kubelet.podresources.serving import PodResourcesServer, PodsProvider

log = logging.getLogger(__name__)


class NodeSockets:
    """The sockets of one node. `device_plugins` also takes the plugins of its type from the registry."""

    def __init__(
        self,
        layout: NodeLayout,
        features: KubeletFeatures,
        clock: Clock,
        metrics: KubeletMetrics,
        plugins: DevicePluginManager,
        pods: PodsProvider,
        find_claim: FindClaim,
    ) -> None:
        apart = features.device_plugins_apart
        self.device_plugins = DevicePluginServer(layout.device_plugins, plugins, metrics, tells_apart=apart)
        lister = Lister(features, plugins, find_claim)
        self._pod_resources = PodResourcesServer(layout.pod_resources, pods, lister, features, clock, metrics)

    async def start(self) -> None:
        """Starts to serve; if a socket cannot be made, the node only lacks its service."""
        for server in (self.device_plugins, self._pod_resources):
            try:
                await server.start()
            except OSError as error:
                log.error("%s", error)

    async def stop(self) -> None:
        await asyncio.gather(self.device_plugins.stop(), self._pod_resources.stop())

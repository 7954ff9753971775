"""DRA with structured parameters, since 1.31: drivers publish slices, and read the claims they prepare."""

from typing import TYPE_CHECKING

from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.dra.checkpoint import Codec
from kubeskew.kubelet.dra.generation import ClaimManager, Generation, NodeParts
from kubeskew.kubelet.dra.manager import DRAManager
from kubeskew.kubelet.metrics import KubeletMetrics

if TYPE_CHECKING:
    from kubeskew.kubelet.dra.socket_plugin import SocketPlugin


class StructuredGeneration(Generation):
    drivers_publish = True

    @property
    def codec(self) -> Codec:
        return self.features.codec

    def connection(
        self, driver: str, endpoint: str, service: str, clock: Clock, metrics: KubeletMetrics
    ) -> "SocketPlugin":
        from kubeskew.kubelet.dra.socket_plugin import SocketPlugin  # imports grpc, which the plugin needs

        return SocketPlugin(driver, endpoint, service, clock, metrics)

    def manager(self, node: NodeParts) -> ClaimManager:
        return DRAManager(
            node.name,
            node.client,
            node.refs.claims,
            node.plugins,
            node.cache,
            node.health,
            node.features,
            self.features.texts,
            node.clock,
            node.metrics,
        )

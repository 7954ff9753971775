"""Classic DRA as a generation of the kubelet."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.dra.checkpoint import Codec
from kubeskew.kubelet.dra.classic.features import ClassicFeatures
from kubeskew.kubelet.dra.classic.node_resources import NodeResources
from kubeskew.kubelet.dra.features import DRAFeatures
from kubeskew.kubelet.dra.generation import ClaimManager, Generation, NodeParts, ResourcePublisher
from kubeskew.kubelet.dra.grpc_versions import ServiceFeatures, check_generic
from kubeskew.kubelet.metrics import KubeletMetrics

if TYPE_CHECKING:
    from kubeskew.kubelet.dra.classic.manager import ClassicSocketPlugin


class ClassicGeneration(Generation):
    def __init__(self, features: DRAFeatures, classic: ClassicFeatures) -> None:
        super().__init__(features)
        self._classic = classic

    @property
    def codec(self) -> Codec | None:
        return self._classic.codec

    @property
    def services(self) -> ServiceFeatures:
        return replace(self.features.services, choose=self._service)

    def _service(self, versions: Sequence[str]) -> str:
        check_generic(versions)
        return self._classic.service

    def connection(
        self, driver: str, endpoint: str, service: str, clock: Clock, metrics: KubeletMetrics
    ) -> "ClassicSocketPlugin":
        from kubeskew.kubelet.dra.classic.manager import ClassicSocketPlugin  # imports grpc

        return ClassicSocketPlugin(driver, endpoint, service, clock, metrics)

    def manager(self, node: NodeParts) -> ClaimManager:
        from kubeskew.kubelet.dra.classic.manager import ClassicDRAManager

        return ClassicDRAManager(node.client, node.refs.claims, node.plugins, node.cache, self._classic)

    def publisher(self, node: NodeParts) -> ResourcePublisher | None:
        form = self._classic.resources
        if form is None:
            return None
        return NodeResources(
            *(node.client, node.clock, node.refs.slices, node.name, form),
            lambda text: node.warn("RefusedNodeResources", text),
        )

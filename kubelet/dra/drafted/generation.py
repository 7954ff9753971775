"""KEP-3063 as drafted, as a generation of the kubelet."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.dra.checkpoint import Codec
from kubeskew.kubelet.dra.features import DRAFeatures
from kubeskew.kubelet.dra.generation import ClaimManager, Generation, NodeParts
from kubeskew.kubelet.dra.grpc_versions import ServiceFeatures, check_generic
from kubeskew.kubelet.metrics import KubeletMetrics

if TYPE_CHECKING:
    from kubeskew.kubelet.dra.drafted.manager import DraftedSocketPlugin

_SERVICE = "v1alpha3"  # a guess: the draft names none


class DraftedGeneration(Generation):
    plugin_type = "ResourcePlugin"

    def __init__(self, features: DRAFeatures, codec: Codec) -> None:
        super().__init__(features)
        self._codec = codec

    @property
    def codec(self) -> Codec:
        return self._codec

    @property
    def services(self) -> ServiceFeatures:
        return replace(self.features.services, choose=_service)

    def connection(
        self, driver: str, endpoint: str, service: str, clock: Clock, metrics: KubeletMetrics
    ) -> "DraftedSocketPlugin":
        from kubeskew.kubelet.dra.drafted.manager import DraftedSocketPlugin  # imports grpc

        return DraftedSocketPlugin(driver, endpoint, service, clock, metrics)

    def manager(self, node: NodeParts) -> ClaimManager:
        from kubeskew.kubelet.dra.drafted.manager import DraftedDRAManager

        return DraftedDRAManager(node.client, node.refs.claims, node.plugins, node.cache, node.clock)


def _service(versions: Sequence[str]) -> str:
    check_generic(versions)
    return _SERVICE

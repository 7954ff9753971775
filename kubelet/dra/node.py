"""DRA on one node: none yet."""

from collections.abc import Callable
from typing import Any

from apimachinery.client.rest import APIClient
from apimachinery.component import World
from kubelet.behaviour import Behaviour
from kubelet.devices import NoDevices
from kubelet.layout import NodeLayout
from kubelet.metrics import KubeletMetrics
from kubelet.node_config import NodeConfig

Object = dict[str, Any]


class NodeDRA:
    """The devices of one node."""

    def __init__(
        self,
        config: NodeConfig,
        layout: NodeLayout,
        world: World,
        behaviour: Behaviour,
        client: APIClient,
        metrics: KubeletMetrics,
    ) -> None:
        self.devices = NoDevices()
        self.published = True

    def restore(self) -> None:
        """Read what the last kubelet left."""

    async def start(self, node: Object, active_pods: Callable[[], set[str]]) -> None:
        """Start drivers."""

    async def stop(self) -> None:
        """Stop drivers."""

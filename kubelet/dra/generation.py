"""The interface of a generation of DRA: how the kubelets of its releases call drivers, and keep claims.

A node is the same in all of them: it registers plugins, keeps a cache of claims and its checkpoint, and asks
its generation for the rest.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kubeskew.apimachinery.client.refs import DRARefs
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.device_managers import PodDevices
from kubeskew.kubelet.dra.checkpoint import CheckpointFile, Codec
from kubeskew.kubelet.dra.claims import ClaimCache
from kubeskew.kubelet.dra.features import DRAFeatures
from kubeskew.kubelet.dra.grpc_versions import ServiceFeatures
from kubeskew.kubelet.dra.health import HealthCache
from kubeskew.kubelet.dra.plugin import PluginRegistry
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.files import StateFiles
from kubeskew.kubelet.metrics import KubeletMetrics

if TYPE_CHECKING:
    from kubeskew.kubelet.dra.socket_plugin import PluginConnection
    from kubeskew.kubelet.protocols.message_sockets import Channel


class ClaimManager(PodDevices, Protocol):
    """The claims of a node's pods."""

    async def reconcile(self, active_pods: Callable[[], set[str]]) -> None:
        """Gives back what pods left behind that are gone from the node, until cancelled."""
        ...


class ResourcePublisher(Protocol):
    """Publishes what registered drivers report to the kubelet."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...

    def add_plugin(self, driver: str, channel: "Channel") -> None: ...

    def remove_plugin(self, driver: str) -> None: ...

    def state(self) -> dict[str, Object]:
        """The state of each driver that reports resources."""
        ...


@dataclass(frozen=True, slots=True)
class NodeParts:
    """The parts of a node that its claim manager works with."""

    name: str
    client: APIClient
    refs: DRARefs
    plugins: PluginRegistry[Any]
    cache: ClaimCache
    health: HealthCache
    features: KubeletFeatures
    clock: Clock
    metrics: KubeletMetrics
    warn: Callable[[str, str], None]  # makes an event of the node of a reason and a text


class Generation(ABC):
    plugin_type = "DRAPlugin"  # with which drivers register
    drivers_publish = False  # their slices themselves; those of a driver that left are wiped

    def __init__(self, features: DRAFeatures) -> None:
        self.features = features

    @property
    @abstractmethod
    def codec(self) -> Codec | None:
        """The format of the checkpoint; None keeps nothing."""

    @property
    def services(self) -> ServiceFeatures:
        """The rules by which plugins register."""
        return self.features.services

    @abstractmethod
    def connection(
        self, driver: str, endpoint: str, service: str, clock: Clock, metrics: KubeletMetrics
    ) -> "PluginConnection":
        """Connects to a plugin that registered; `service` is the chosen one."""

    @abstractmethod
    def manager(self, node: NodeParts) -> ClaimManager: ...

    def publisher(self, node: NodeParts) -> ResourcePublisher | None:
        """None for kubelets that publish nothing for drivers."""
        return None

    def checkpoint(self, directory: Path, files: StateFiles) -> CheckpointFile:
        """The checkpoint in the kubelet's directory."""
        texts = self.features.texts
        return CheckpointFile(directory, self.codec, files, texts.checkpoint, texts.checkpoint_entries)

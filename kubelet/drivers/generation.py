"""The interface of a generation of drivers: its services on a node, and its controller."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.component import ComponentContext
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.claims import CallLog, ClaimRef, PreparedClaims
from kubeskew.kubelet.drivers.settings import ControllerSettings, DriverNode
from kubeskew.kubelet.drivers.switches import Health, Switches
from kubeskew.kubelet.protocols.message_sockets import Server

DeviceHealth = tuple[str, str, Health]  # pool, device, health
ReadyCheck = Callable[[], bool | str]


class NodeServices(Protocol):
    """The services of a driver on one node."""

    @property
    def plugin_type(self) -> str:
        """The type with which the driver registers."""
        ...

    def versions(self, apis: Sequence[str]) -> Sequence[str]:
        """The versions that a kubelet is shown; `apis` are the served ones, if not all that are known."""
        ...

    def serve(self, server: Server, apis: Sequence[str]) -> None: ...

    def turn(self, switches: Switches) -> None:
        """Sets the switches; calls that hang may go on, and all is reported again."""
        ...

    def report(self) -> None:
        """Reports again what the kubelet follows."""
        ...

    def reported_digest(self) -> str:
        """Digest of the resources that a kubelet which asks for them has to know by now; empty if none
        asks."""
        ...


@dataclass(frozen=True, slots=True)
class NodeParts:
    """The parts of a driver on one node that its services work with."""

    driver: str
    library: Version
    clock: Clock
    client: APIClient
    claims: PreparedClaims
    calls: CallLog
    get_claim: Callable[[ClaimRef], Awaitable[Object]]
    health: Callable[[], Iterable[DeviceHealth]]
    node: Callable[[], DriverNode]  # as the driver's file has it now


@dataclass(frozen=True, slots=True)
class ControllerParts:
    """The parts of a controller's process; `ready` sets its check of readiness."""

    ctx: ComponentContext
    driver: str
    settings: ControllerSettings
    nodes: Callable[[], Mapping[str, DriverNode]]
    ready: Callable[[ReadyCheck], None]

    def capacity(self) -> dict[str, int]:
        """A node takes as many claims as it has devices."""
        found = {}
        for name, node in self.nodes().items():
            devices = node.switches.devices
            found[name] = (node.offer.devices if devices is None else devices) or 0
        return found

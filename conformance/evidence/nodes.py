"""Evidence of nodes besides the API: calls of drivers, and containers of the runtime."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_UNPREPARE = "NodeUnprepareResource"  # and with an s where one call is for several claims


@dataclass(frozen=True, slots=True)
class PreparedClaim:
    """A claim whose devices a node's kubelet holds prepared by a driver.

    `devices` are `{pool, device, requests, cdiIDs, shareID}` each.
    """

    node: str
    driver: str
    namespace: str
    name: str
    uid: str
    devices: Sequence[Mapping[str, Any]] = field(default_factory=list)

    @property
    def device_names(self) -> list[str]:
        return sorted(device["device"] for device in self.devices)

    @property
    def cdi_ids(self) -> list[str]:
        return sorted({cdi_id for device in self.devices for cdi_id in device.get("cdiIDs") or ()})

    def __str__(self) -> str:
        devices = f" with {', '.join(self.device_names)}" if self.devices else ""
        return f"{self.namespace}/{self.name} by {self.driver} on {self.node}{devices}"


@dataclass(frozen=True, slots=True)
class DriverCall:
    """A kubelet's call of a driver for one claim, as the driver's own log has it.

    `error` is that of the claim, or of the call as a whole. `devices` are those of the answer, `{pool,
    device, requests, cdiIDs, shareID}` each; up to 1.30 their `cdiIDs` alone.
    """

    time: str  # RFC 3339 with microseconds
    node: str
    driver: str
    call: str  # as the protocol's version spells it: NodePrepareResource, NodeUnprepareResources, …
    namespace: str
    name: str
    uid: str
    error: str = ""
    devices: Sequence[Mapping[str, Any]] = field(default_factory=list)

    @property
    def unprepares(self) -> bool:
        return self.call.startswith(_UNPREPARE)


@dataclass(frozen=True, slots=True)
class InjectedDevice:
    """A CDI device that a runtime put into a container, with the variables that it sets by its spec."""

    name: str
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ContainerEvent:
    """A container that the runtime of a node started, stopped or saw exit.

    `cdi_devices` are those that the kubelet asked for. A start has `injected`, the devices put in for them,
    and `env`, the variables of its program.
    """

    time: str
    node: str
    pod_uid: str
    container: str
    id: str
    what: str  # started, stopped, exited
    cdi_devices: Sequence[str] = ()
    injected: Sequence[InjectedDevice] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeRecords:
    """Records of drivers and runtimes, in the order of time."""

    calls: Sequence[DriverCall] = field(default_factory=tuple)
    containers: Sequence[ContainerEvent] = field(default_factory=tuple)

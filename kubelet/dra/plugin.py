"""The interface between the DRA manager and a driver's plugin on the node, and the registered plugins.

The methods are those of the gRPC service `DRAPlugin` (k8s.io/kubelet/pkg/apis/dra/v1): a driver in this
process implements them directly, one behind a socket through a client of that service.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from kubeskew.kubelet.device_managers import DeviceError

PREPARE, UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"


class ClaimRef(NamedTuple):
    """A claim as drivers get it."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """An allocated device as its driver prepared it. `requests` and `cdi_ids` may be empty."""

    pool: str
    device: str
    requests: tuple[str, ...] = ()
    cdi_ids: tuple[str, ...] = ()
    share_id: str = ""

    def as_json(self) -> dict[str, object]:
        return {
            "pool": self.pool,
            "device": self.device,
            "requests": list(self.requests),
            "cdiIDs": list(self.cdi_ids),
            "shareID": self.share_id,
        }


class ClaimFailed(NamedTuple):
    """A driver's answer for a claim that it cannot prepare or unprepare."""

    error: str


class RegisteredPlugin(Protocol):
    """A driver on this node."""

    @property
    def driver(self) -> str: ...

    @property
    def connected(self) -> bool:
        """The last known state of the connection; calls may fail all the same."""
        ...


class DRAPlugin(RegisteredPlugin, Protocol):
    """Calls are idempotent; one that fails as a whole raises PluginError."""

    async def node_prepare_resources(
        self, claims: Sequence[ClaimRef]
    ) -> Mapping[str, Sequence[PreparedDevice] | ClaimFailed]:
        """Devices, or the error, stand under their claim's UID."""
        ...

    async def node_unprepare_resources(self, claims: Sequence[ClaimRef]) -> Mapping[str, ClaimFailed | None]:
        """None, or the error, stands under each claim's UID."""
        ...


class PluginError(Exception):
    """A call to a plugin failed as a whole."""


P = TypeVar("P", bound=RegisteredPlugin)


class PluginRegistry(Generic[P]):
    """The registered plugins, by driver: the newest that is connected is used, else the newest."""

    def __init__(self, unregistered_text: str) -> None:
        self._unregistered_text = unregistered_text
        self._plugins: dict[str, list[P]] = {}

    def register(self, plugin: P) -> None:
        self._plugins.setdefault(plugin.driver, []).append(plugin)

    def deregister(self, plugin: P) -> None:
        """Removes the plugin; others of the same driver (a rolling update) stay."""
        remaining = [other for other in self._plugins.get(plugin.driver, []) if other is not plugin]
        if remaining:
            self._plugins[plugin.driver] = remaining
        else:
            self._plugins.pop(plugin.driver, None)

    def of(self, driver: str) -> list[P]:
        """The oldest comes first."""
        return [*self._plugins.get(driver, [])]

    def all(self) -> list[P]:
        return [plugin for plugins in self._plugins.values() for plugin in plugins]

    def get(self, driver: str) -> P:
        """Raises DeviceError, which names the driver, if none is registered."""
        plugins = self.of(driver)
        if not plugins:
            raise DeviceError(self._unregistered_text.format(driver=driver))
        return next((plugin for plugin in reversed(plugins) if plugin.connected), plugins[-1])

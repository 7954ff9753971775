"""A driver's sockets on one node: the one on which the kubelet calls it, and the one by which it finds it.

Source: k8s.io/dynamic-resource-allocation/kubeletplugin; which services a release of the library announces.
"""

import hashlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.classic_services import services_of
from kubeskew.kubelet.drivers.services import DriverServices
from kubeskew.kubelet.drivers.settings import Directories
from kubeskew.kubelet.protocols import calling, dra_drafted, registration
from kubeskew.kubelet.protocols.messages.plugin_registration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)

log = logging.getLogger(__name__)

_LAST_CLASSIC = 30  # whose library knows handles
_LONGEST_PATH = 107  # most bytes in the path of a Unix socket
_HEALTH_SERVICE = ".DRAResourceHealth"
_HEALTH, _STABLE_HEALTH = f"v1alpha1{_HEALTH_SERVICE}", f"v1{_HEALTH_SERVICE}"
# The minor from which the library names these services; before, a plain version meant v1alpha3.Node.
_SUPPORTED = (
    (37, ("v1.DRAPlugin", "v1beta1.DRAPlugin", _STABLE_HEALTH, _HEALTH)),
    (34, ("v1.DRAPlugin", "v1beta1.DRAPlugin", _HEALTH)),
    (32, ("v1beta1.DRAPlugin", "v1alpha3.Node")),
    (0, ("1.0.0",)),
)


class DriverEndpoints:
    """The sockets of a driver: `start` shows the driver to the node's kubelet, `stop` hides it."""

    def __init__(
        self,
        driver: str,
        node: str,
        library: Version,
        directories: Directories,
        services: DriverServices,
        told: Callable[[], None],
        apis: Sequence[str] = (),
        instance: str = "",
    ) -> None:
        """`told` is called once a kubelet has registered the driver.

        `apis` are the served versions of the DRA plugin's API, if not all that the library knows. `instance`
        distinguishes the sockets of two instances of the driver (a rolling update).
        """
        self._told = told
        self.registered = False
        self.refused = ""  # why the kubelet refused it
        self._driver = driver
        self._node = node
        supported = next(names for minor, names in _SUPPORTED if library.minor >= minor)
        self._library, self._apis = library, apis
        self._drafted = library.preview == "kep3063"
        self._versions = supported if library.minor <= _LAST_CLASSIC else _chosen(supported, apis)
        suffix = f"-{instance}" if instance else ""
        self._socket = directories.plugins / driver / f"dra{suffix}.sock"
        self._registrar = _registrar(directories.registrar, f"{driver}{suffix}")
        self._services = services
        self._servers: list[Any] = []

    async def start(self) -> None:
        """Starts to serve; raises OSError if a socket cannot be made."""
        plugin = calling.new_server()
        if self._drafted:
            self._services.drafted.serve(plugin)
        elif self._library.minor <= _LAST_CLASSIC:
            self._services.classic.serve(plugin, services_of(self._library, self._apis))
        else:
            self._services.serve(plugin, self._versions)
        await self._listen(plugin, self._socket)
        shown = calling.new_server()
        registration.GET_INFO.serve(shown, self._info)
        registration.NOTIFY.serve(shown, self._notified)
        await self._listen(shown, self._registrar)

    async def stop(self) -> None:
        """Cancels calls in flight; removes the registrar's socket first, as upstream's helper does."""
        servers, self._servers = self._servers, []
        for server, socket in zip(servers[::-1], (self._registrar, self._socket), strict=False):
            await server.stop(0)
            _remove(socket)
        self.registered = False

    async def _listen(self, server: Any, socket: Path) -> None:
        _make_room(socket)
        server.listen(socket)
        await server.start()
        self._servers.append(server)

    async def _info(self, _: InfoRequest) -> PluginInfo:
        return PluginInfo(
            type=dra_drafted.RESOURCE_PLUGIN if self._drafted else registration.DRA_PLUGIN,
            name=self._driver,
            endpoint=str(self._socket),
            supported_versions=self._versions,
        )

    async def _notified(self, status: RegistrationStatus) -> RegistrationStatusResponse:
        self.registered = status.plugin_registered
        self.refused = "" if status.plugin_registered else status.error or "refused"
        if status.plugin_registered:
            log.info("node %s: registered with the kubelet", self._node)
            self._told()
        else:
            log.error("node %s: the kubelet refused the plugin: %s", self._node, status.error)
        return RegistrationStatusResponse()


def _chosen(supported: Sequence[str], apis: Sequence[str]) -> tuple[str, ...]:
    """Returns the names announced to kubelets: all supported ones, or these versions of the plugin's own
    service."""
    if not apis:
        return tuple(supported)
    others = [name for name in supported if name.endswith(_HEALTH_SERVICE)]
    return (*(f"{api}.DRAPlugin" for api in apis), *others)


def _make_room(socket: Path) -> None:
    """Removes the socket that a killed driver left."""
    socket.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _remove(socket)


def _remove(socket: Path) -> None:
    socket.unlink(missing_ok=True)


def _registrar(directory: Path, driver: str) -> Path:
    """Returns `DRIVER-reg.sock`, or a short name in its place if that is too long for a socket."""
    path = directory / f"{driver}-reg.sock"
    if len(str(path).encode()) <= _LONGEST_PATH:
        return path
    return directory / f"{hashlib.sha256(driver.encode()).hexdigest()[:12]}-reg.sock"

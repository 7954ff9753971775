"""A classic driver on a node: a kubelet of its generation may also ask it for the resources of the node."""

from collections.abc import Callable, Sequence

import grpc

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.classic.named_resources import named_resources_of
from kubeskew.kubelet.drivers.classic.services import ClassicServices, services_of
from kubeskew.kubelet.drivers.features import PLAIN_VERSIONS
from kubeskew.kubelet.drivers.generation import NodeParts
from kubeskew.kubelet.drivers.profiles import ProfileError
from kubeskew.kubelet.drivers.settings import DriverNode
from kubeskew.kubelet.drivers.switches import Switches
from kubeskew.kubelet.protocols import registration
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.message_sockets import Server


class ClassicNode:
    """Implements `NodeServices`."""

    plugin_type = registration.DRA_PLUGIN
    services: type[ClassicServices] = ClassicServices
    list_resources: Callable[[str, DriverNode, Version], list[Object]] = staticmethod(named_resources_of)

    def __init__(self, node: NodeParts) -> None:
        self._node = node
        self._services = self.services(node.driver, node.claims, node.calls, self._resources)
        self._services.switches = node.node().switches

    def versions(self, apis: Sequence[str]) -> Sequence[str]:
        return PLAIN_VERSIONS

    def serve(self, server: Server, apis: Sequence[str]) -> None:
        self._services.serve(server, services_of(self._node.library, apis))

    def turn(self, switches: Switches) -> None:
        self._services.switches = switches
        self.report()

    def report(self) -> None:
        self._services.report()

    def reported_digest(self) -> str:
        return self._services.reported_digest()

    def _resources(self) -> list[Object] | None:
        """None means that a controller allocates, which needs no slices. Raises RpcError."""
        node = self._node.node()
        if node.controller is not None and node.controller.parameters is None:
            return None
        try:
            return self.list_resources(self._node.driver, node, self._node.library)
        except (ProfileError, KeyError, TypeError) as error:
            raise RpcError(grpc.StatusCode.UNKNOWN, f"cannot make the devices: {error}") from error

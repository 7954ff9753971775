"""A driver of KEP-3063's draft on a node: its kubelet names a claim by its UID alone."""

from collections.abc import Sequence

from kubeskew.apimachinery.client.refs import dra_refs
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.drivers.drafted.services import DraftedServices
from kubeskew.kubelet.drivers.features import PLAIN_VERSIONS
from kubeskew.kubelet.drivers.generation import NodeParts
from kubeskew.kubelet.drivers.switches import Switches
from kubeskew.kubelet.protocols import dra_drafted
from kubeskew.kubelet.protocols.message_sockets import Server


class DraftedNode:
    """Implements `NodeServices`."""

    plugin_type = dra_drafted.RESOURCE_PLUGIN

    def __init__(self, node: NodeParts) -> None:
        self._node = node
        self._services = DraftedServices(node.claims, self._find_claim, node.calls)
        self._services.switches = node.node().switches

    def versions(self, apis: Sequence[str]) -> Sequence[str]:
        return PLAIN_VERSIONS

    def serve(self, server: Server, apis: Sequence[str]) -> None:
        self._services.serve(server)

    def turn(self, switches: Switches) -> None:
        self._services.switches = switches

    def report(self) -> None:
        """Does nothing: a kubelet of the draft follows nothing."""

    def reported_digest(self) -> str:
        return ""

    async def _find_claim(self, uid: str) -> Object | None:
        """None if no claim has the UID. Raises StatusError."""
        claims = (await self._node.client.list(dra_refs(self._node.library).claims))["items"]
        return next((claim for claim in claims if claim["metadata"]["uid"] == uid), None)

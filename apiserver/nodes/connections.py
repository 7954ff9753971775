"""Finds the address at which a node's kubelet listens, and the certificates for connections to it.

Source: pkg/kubelet/client/kubelet_client.go (GetConnectionInfo) and pkg/util/node/node.go
(GetPreferredNodeAddress), 1.36.
"""

import ssl

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import GroupResource, StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.nodes.exchange import Address
from kubeskew.apiserver.nodes.services import NodeServices
from kubeskew.apiserver.options import ServerOptions

_DEFAULT_PORT = 10250


class NodeConnections:
    """Of one server; certificates are read when they are first needed."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self._contexts: dict[bool, ssl.SSLContext] = {}

    def address(
        self, services: NodeServices, node_name: str, *, insecure: bool = False, asked: str = "nodes"
    ) -> Address:
        """Returns the address of the node's kubelet; raises StatusError.

        `insecure`: the kubelet's certificate is not verified. As upstream, the error for a missing node names
        the resource that was `asked` for.
        """
        node = services.core_object("nodes", "", node_name)
        if node is None:
            raise errors.not_found(GroupResource("", asked), node_name)
        status = node.get("status") or {}
        endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
        host = self._host(status.get("addresses") or [])
        return Address(host, int(endpoint.get("Port") or _DEFAULT_PORT), self._context(insecure=insecure))

    def _host(self, addresses: list[Object]) -> str:
        for kind in self._options.kubelet_preferred_address_types:
            for address in addresses:
                if address.get("type") == kind and address.get("address"):
                    return str(address["address"])
        known = " ".join(
            f"{{{address.get('type', '')} {address.get('address', '')}}}" for address in addresses
        )
        text = f"no preferred addresses found; known addresses: [{known}]"
        raise StatusError(500, "", text)

    def _context(self, *, insecure: bool) -> ssl.SSLContext | None:
        options = self._options
        if not options.kubelet_client_certificate:
            return None  # only servers of tests lack certificates, and their nodes do, too
        found = self._contexts.get(insecure)
        if found is None:
            found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            found.load_cert_chain(options.kubelet_client_certificate, options.kubelet_client_key)
            if insecure or not options.kubelet_certificate_authority:
                found.check_hostname = False
                found.verify_mode = ssl.CERT_NONE
            else:
                found.load_verify_locations(options.kubelet_certificate_authority)
            self._contexts[insecure] = found
        return found

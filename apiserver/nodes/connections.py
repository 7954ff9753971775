"""Connections to kubelets: address and certificates of a node, and the container that a request means.

Sources: pkg/registry/core/pod/strategy.go (validateContainer), 1.36; pkg/kubelet/client/kubelet_client.go
(GetConnectionInfo) and pkg/util/node/node.go (GetPreferredNodeAddress), 1.36.
"""

import ssl
from typing import Protocol

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import GroupResource, StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.network_agent import NetworkAgent
from kubeskew.apiserver.nodes.proxy import Address
from kubeskew.apiserver.options import ServerOptions
from kubeskew.apiserver.storage.interfaces import Store

PODS = GroupResource("", "pods")
_PARTS = ("initContainers", "containers", "ephemeralContainers")
_DEFAULT_PORT = 10250


class NodeServices(Protocol):
    store: Store

    def core_object(self, plural: str, namespace: str, name: str) -> Object | None: ...


async def pod_of(services: NodeServices, namespace: str, name: str) -> Object:
    """Raises 404; waits until writes of other servers are seen."""
    await services.store.refresh()
    pod = services.core_object("pods", namespace, name)
    if pod is None:
        raise errors.not_found(PODS, name)
    return pod


def container_of(pod: Object, asked: str) -> str:
    """`asked` may be empty if there is only one container. Raises 400."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    every = [container["name"] for part in _PARTS for container in spec.get(part) or ()]
    if asked:
        if asked not in every:
            raise errors.bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    containers = spec.get("containers") or []
    if len(containers) == 1:
        return str(containers[0]["name"])
    text = f"a container name must be specified for pod {name}"
    if containers:
        text += f", choose one of: [{' '.join(every)}]"
    raise errors.bad_request(text)


class NodeConnections:
    """Certificates are read when they are first needed. `network` is that of the pods, if they have one."""

    def __init__(self, options: ServerOptions, network: NetworkAgent | None = None) -> None:
        self._options = options
        self.network = network
        self._contexts: dict[bool, ssl.SSLContext] = {}

    def address(
        self, services: NodeServices, node_name: str, *, insecure: bool = False, asked: str = "nodes"
    ) -> Address:
        """Raises StatusError if the node or its address is not there.

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

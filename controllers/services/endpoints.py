"""The endpoints controller: one Endpoints object per service.

Behaviour of k8s.io/kubernetes/pkg/controller/endpoint, 1.36.
"""

from collections.abc import Iterable

from apimachinery.client.refs import ENDPOINTS
from apimachinery.client.rest import Object
from apimachinery.errors import StatusError
from controllers.base import ControllerContext, Key
from controllers.replica_pods import is_namespace_terminating
from controllers.services.backends import Backend, Port, by_ports, is_headless, selector_of
from controllers.services.base import ServiceController

_HEADLESS = "service.kubernetes.io/headless"
_MOST_ADDRESSES = 1000


class EndpointsController(ServiceController):
    name = "endpoints-controller"
    component = "endpoint-controller"
    queue_name = "endpoint"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._endpoints = context.informer(ENDPOINTS)
        self._endpoints.add_handler(deleted=self.enqueue)

    async def sync(self, key: Key) -> None:
        service = self.services.get(*key)
        present = self._endpoints.get(*key)
        if service is None:
            if present is not None:
                await self._delete(key)
            return
        if not selector_of(service) or service["metadata"].get("deletionTimestamp"):
            return
        wanted = subsets(self.backends(service))
        labels = dict(service["metadata"].get("labels") or {})
        if is_headless(service):
            labels[_HEADLESS] = ""
        if present is None:
            await self._create(key, labels, wanted)
        elif (present.get("subsets") or []) != wanted or (present["metadata"].get("labels") or {}) != labels:
            metadata = {**present["metadata"], "labels": labels}
            await self.client.update(ENDPOINTS, {**present, "metadata": metadata, "subsets": wanted})

    async def _create(self, key: Key, labels: dict[str, str], wanted: list[Object]) -> None:
        obj: Object = {
            "apiVersion": ENDPOINTS.api_version,
            "kind": ENDPOINTS.kind,
            "metadata": {"name": key.name, "namespace": key.namespace, "labels": labels},
            "subsets": wanted,
        }
        try:
            await self.client.create(ENDPOINTS, obj)
        except StatusError as error:
            if not is_namespace_terminating(error):
                raise

    async def _delete(self, key: Key) -> None:
        try:
            await self.client.delete(ENDPOINTS, key.name, key.namespace)
        except StatusError as error:
            if error.code != 404:
                raise


def subsets(found: Iterable[Backend]) -> list[Object]:
    """Addresses by the ports they have in common; those that terminate are left out."""
    staying = [one for one in found if not one.terminating]
    result = []
    for ports, group in by_ports(staying[:_MOST_ADDRESSES]).items():
        subset: Object = {}
        for name, ready in (("addresses", True), ("notReadyAddresses", False)):
            addresses = [_address(one) for one in group if one.ready is ready]
            if addresses:
                subset[name] = sorted(addresses, key=lambda address: str(address["ip"]))
        if ports:
            subset["ports"] = [_port(port) for port in ports]
        result.append(subset)
    return result


def _address(backend: Backend) -> Object:
    address: Object = {"ip": backend.ip}
    if hostname := backend.pod["spec"].get("hostname"):
        address["hostname"] = hostname
    if node := backend.pod["spec"].get("nodeName"):
        address["nodeName"] = node
    return {**address, "targetRef": backend.reference}


def _port(port: Port) -> Object:
    named = {"name": port.name} if port.name else {}
    return {**named, "port": port.port, "protocol": port.protocol}

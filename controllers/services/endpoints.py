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
from controllers.services.triggers import annotated

_HEADLESS = "service.kubernetes.io/headless"
_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
_OWN_LABELS = (_HEADLESS, _MANAGED_BY)
_MANAGED_SINCE = 33
_CAPACITY = "endpoints.kubernetes.io/over-capacity"
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
            self.triggers.forget(key)
            if present is not None:
                await self._delete(key)
            return
        if not selector_of(service) or service["metadata"].get("deletionTimestamp"):
            return
        time = self.triggers.of(key, service, self.selected(service))
        staying = [one for one in self.backends(service) if not one.terminating]
        wanted, given = subsets(staying[:_MOST_ADDRESSES]), dict(service["metadata"].get("labels") or {})
        before = present["metadata"] if present is not None else {}
        annotations = before.get("annotations") or {}
        if present is not None and (present.get("subsets") or []) == wanted:
            known = {k: v for k, v in (before.get("labels") or {}).items() if k not in _OWN_LABELS}
            if known == given and (_CAPACITY in annotations) == (len(staying) > _MOST_ADDRESSES):
                return
        given |= {_HEADLESS: ""} if is_headless(service) else {}
        given |= {_MANAGED_BY: self.component} if self.world.version.minor >= _MANAGED_SINCE else {}
        annotations = {k: v for k, v in annotations.items() if k != _CAPACITY}
        if len(staying) > _MOST_ADDRESSES:
            annotations[_CAPACITY] = "truncated"
        metadata = annotated({**before, "labels": given, "annotations": annotations}, time)
        if present is None:
            await self._create(key, metadata, wanted)
        else:
            await self.client.update(ENDPOINTS, {**present, "metadata": metadata, "subsets": wanted})

    async def _create(self, key: Key, metadata: Object, wanted: list[Object]) -> None:
        obj: Object = {
            "apiVersion": ENDPOINTS.api_version,
            "kind": ENDPOINTS.kind,
            "metadata": {**metadata, "name": key.name, "namespace": key.namespace},
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
    """Addresses by the ports they have in common."""
    result = []
    for ports, group in by_ports(found).items():
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

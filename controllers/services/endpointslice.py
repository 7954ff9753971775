"""The endpoint slice controller: slices of at most 100 endpoints per service.

Behaviour of k8s.io/kubernetes/pkg/controller/endpointslice, 1.36, for addresses of IPv4.
"""

from collections.abc import Iterable

from apimachinery.client.refs import ENDPOINT_SLICES, SERVICES
from apimachinery.client.rest import Object
from apimachinery.errors import StatusError
from controllers.base import ControllerContext, Key
from controllers.owners import new_controller_reference
from controllers.replica_pods import is_namespace_terminating
from controllers.services.backends import Backend, by_ports, is_headless, selector_of
from controllers.services.base import ServiceController

_SERVICE_LABEL = "kubernetes.io/service-name"
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_MANAGER = "endpointslice-controller.k8s.io"
_HEADLESS = "service.kubernetes.io/headless"
_MOST_ENDPOINTS = 100


class EndpointSliceController(ServiceController):
    name = "endpointslice-controller"
    component = "endpoint-slice-controller"
    queue_name = "endpoint_slice"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._slices = context.informer(ENDPOINT_SLICES)
        self._slices.add_index("service", _service_keys)
        self._slices.add_handler(deleted=self._slice_deleted)
        self._made: dict[Key, set[str]] = {}  # slices created that the informer does not show yet

    def _slice_deleted(self, slice_: Object) -> None:
        for key in _service_keys(slice_):
            self.queue.add(Key(*key.split("/", 1)))

    async def sync(self, key: Key) -> None:
        service = self.services.get(*key)
        if service is None:
            self._made.pop(key, None)
            return  # its slices are collected as garbage
        if not selector_of(service) or service["metadata"].get("deletionTimestamp"):
            return
        present = self._slices.by_index("service", str(key))
        if self._made.get(key, set()) - {one["metadata"]["name"] for one in present}:
            # What we made is still on its way: acting now would make it twice.
            self.queue.add_after(key, 0.05)
            self._made.pop(key)
            return
        self._made.pop(key, None)
        wanted = slices(self.backends(service))
        for number, content in enumerate(wanted):
            if number < len(present):
                await self._update(present[number], content)
            else:
                await self._create(key, service, content)
        for extra in present[len(wanted) :]:
            await self._delete(extra)

    async def _update(self, present: Object, content: Object) -> None:
        if all((present.get(name) or []) == value for name, value in content.items()):
            return
        await self.client.update(ENDPOINT_SLICES, {**present, **content})

    async def _create(self, key: Key, service: Object, content: Object) -> None:
        labels = {
            **(service["metadata"].get("labels") or {}),
            _SERVICE_LABEL: key.name,
            _MANAGED_BY: _MANAGER,
        }
        if is_headless(service):
            labels[_HEADLESS] = ""
        obj: Object = {
            "apiVersion": ENDPOINT_SLICES.api_version,
            "kind": ENDPOINT_SLICES.kind,
            "metadata": {
                "generateName": f"{key.name}-",
                "namespace": key.namespace,
                "labels": labels,
                "ownerReferences": [new_controller_reference(service, SERVICES)],
            },
            "addressType": "IPv4",
            **content,
        }
        try:
            made = await self.client.create(ENDPOINT_SLICES, obj)
        except StatusError as error:
            if not is_namespace_terminating(error):
                raise
        else:
            self._made.setdefault(key, set()).add(made["metadata"]["name"])

    async def _delete(self, slice_: Object) -> None:
        metadata = slice_["metadata"]
        try:
            await self.client.delete(ENDPOINT_SLICES, metadata["name"], metadata["namespace"])
        except StatusError as error:
            if error.code != 404:
                raise


def slices(found: Iterable[Backend]) -> list[Object]:
    """The contents of the slices, at least one; endpoints with other ports are in other slices."""
    result = []
    for ports, group in by_ports(found).items():
        listed = [{"name": port.name, "port": port.port, "protocol": port.protocol} for port in ports]
        for start in range(0, len(group), _MOST_ENDPOINTS):
            endpoints = [_endpoint(one) for one in group[start : start + _MOST_ENDPOINTS]]
            result.append({"endpoints": endpoints, "ports": listed})
    return result or [{"endpoints": [], "ports": []}]


def _endpoint(backend: Backend) -> Object:
    endpoint: Object = {
        "addresses": [backend.ip],
        "conditions": {
            "ready": backend.ready,
            "serving": backend.serving,
            "terminating": backend.terminating,
        },
        "targetRef": backend.reference,
    }
    if node := backend.pod["spec"].get("nodeName"):
        endpoint["nodeName"] = node
    if hostname := backend.pod["spec"].get("hostname"):
        endpoint["hostname"] = hostname
    return endpoint


def _service_keys(slice_: Object) -> list[str]:
    """An index function: slices of ours by the service's key."""
    metadata = slice_["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(_MANAGED_BY) != _MANAGER or _SERVICE_LABEL not in labels:
        return []
    return [f"{metadata['namespace']}/{labels[_SERVICE_LABEL]}"]

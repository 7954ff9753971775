"""The endpoint slice controller: slices of at most 100 endpoints per service.

Source: k8s.io/kubernetes/pkg/controller/endpointslice, 1.36, for addresses of IPv4.
"""

from collections.abc import Iterable

from kubeskew.apimachinery.client.refs import ENDPOINT_SLICES, SERVICES
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.endpoints.features import EndpointsFeatures
from kubeskew.controllers.endpoints.services import (
    MANAGED_BY,
    SERVICE_LABEL,
    Backend,
    Port,
    ServiceController,
    SliceWriter,
    annotated,
    backends,
    by_ports,
    is_headless,
    selector_of,
    service_keys,
)
from kubeskew.controllers.framework.base import ControllerContext, Key
from kubeskew.controllers.framework.owner_references import new_controller_reference

_MANAGER = "endpointslice-controller.k8s.io"
_HEADLESS = "service.kubernetes.io/headless"
_MOST_ENDPOINTS = 100


class EndpointSliceController(ServiceController):
    name = "endpointslice-controller"
    component = "endpoint-slice-controller"
    queue_name = "endpoint_slice"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        environment = context.environment
        self._features = EndpointsFeatures.of(environment.gates)
        self._slices = context.informer(ENDPOINT_SLICES)
        self._slices.add_index("service", lambda slice_: service_keys(slice_, _MANAGER))
        self._slices.add_handler(deleted=self._slice_deleted)
        self._writer = SliceWriter(context.client)

    def _slice_deleted(self, slice_: Object) -> None:
        for key in service_keys(slice_, _MANAGER):
            self.queue.add(Key(*key.split("/", 1)))

    async def sync(self, key: Key) -> None:
        service = self.services.get(*key)
        if service is None:
            self._writer.forget(key)
            self.triggers.forget(key)
            return  # the garbage collector removes its slices
        if not selector_of(service) or service["metadata"].get("deletionTimestamp"):
            return
        present = self._slices.by_index("service", str(key))
        if self._writer.is_behind(key, present):
            self.queue.add_after(key, 0.05)
            return
        selected = self.selected(service)
        overlooks = self._features.slices_overlook_sidecars
        wanted = slices(backends(service, selected, overlooks_sidecars=overlooks))
        time = self.triggers.of(key, service, selected)
        for number, content in enumerate(wanted):
            content["metadata"] = {"labels": _labels(key, service)}
            if number < len(present):
                await self._update(present[number], content, time)
            else:
                owner = new_controller_reference(service, SERVICES)
                metadata = {**content["metadata"], "ownerReferences": [owner]}
                made = {**content, "metadata": annotated(metadata, time), "addressType": "IPv4"}
                await self._writer.create(key, made)
        for extra in present[len(wanted) :]:
            await self._writer.delete(extra)

    async def _update(self, present: Object, content: Object, time: str) -> None:
        labels = content["metadata"]["labels"]
        same = all((present.get(name) or []) == content[name] for name in ("endpoints", "ports"))
        if same and (present["metadata"].get("labels") or {}) == labels:
            return
        metadata = annotated({**present["metadata"], "labels": labels}, time)
        await self.client.update(ENDPOINT_SLICES, {**present, **content, "metadata": metadata})


def _labels(key: Key, service: Object) -> dict[str, str]:
    labels = {**(service["metadata"].get("labels") or {}), SERVICE_LABEL: key.name, MANAGED_BY: _MANAGER}
    return {**labels, _HEADLESS: ""} if is_headless(service) else labels


def slices(found: Iterable[Backend]) -> list[Object]:
    """There is at least one slice; endpoints with different ports are in different slices."""
    result = []
    for ports, group in by_ports(found).items():
        listed = [_port(port) for port in ports]
        for start in range(0, len(group), _MOST_ENDPOINTS):
            endpoints = [_endpoint(backend) for backend in group[start : start + _MOST_ENDPOINTS]]
            result.append({"endpoints": endpoints, "ports": listed})
    return result or [{"endpoints": [], "ports": []}]


def _port(port: Port) -> Object:
    spoken = {} if port.application is None else {"appProtocol": port.application}
    return {"name": port.name, "port": port.port, "protocol": port.protocol, **spoken}


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
    if backend.hostname:
        endpoint["hostname"] = backend.hostname
    return endpoint

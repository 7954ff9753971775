"""The endpoint slice controller: slices of at most 100 endpoints per service.

Source: k8s.io/kubernetes/pkg/controller/endpointslice, 1.36, for addresses of IPv4.
"""

from collections.abc import Iterable

from kubeskew.apimachinery.client.refs import ENDPOINT_SLICES, NODES, SERVICES
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.endpoints.features import EndpointsFeatures
from kubeskew.controllers.endpoints.port_hashes import digest_of
from kubeskew.controllers.endpoints.services import (
    Backend,
    Port,
    ServiceController,
    SliceWriter,
    annotated,
    backends,
    selector_of,
    service_keys,
)
from kubeskew.controllers.endpoints.slice_groups import MANAGER, Changes, SliceGroups
from kubeskew.controllers.framework.base import ControllerContext, Key, SyncError
from kubeskew.controllers.framework.owner_references import new_controller_reference


class EndpointSliceController(ServiceController):
    name = "endpointslice-controller"
    component = "endpoint-slice-controller"
    queue_name = "endpoint_slice"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        environment = context.environment
        self._features = EndpointsFeatures.of(environment.gates)
        self._slices = context.informer(ENDPOINT_SLICES)
        self._slices.add_index("service", lambda slice_: service_keys(slice_, MANAGER))
        self._slices.add_handler(
            self._slice_changed, lambda _, new: self._slice_changed(new), self._slice_changed
        )
        self._nodes = context.informer(NODES)
        self._writer = SliceWriter(context.client)

    def _slice_changed(self, slice_: Object) -> None:
        for key in service_keys(slice_, MANAGER):
            self.queue.add(Key(*key.split("/", 1)))

    async def sync(self, key: Key) -> None:
        service = self.services.get(*key)
        if service is None:
            self._writer.forget(key)
            self.triggers.forget(key)
            return  # the garbage collector removes its slices
        if not selector_of(service):
            return
        present = self._slices.by_index("service", str(key))
        if self._writer.is_behind(key, present):
            self.queue.add_after(key, 0.05)
            return
        selected = self.selected(service)
        groups = SliceGroups(service, present, digest_of(self._features))
        lost = self._place(groups, service, selected)
        time = self.triggers.of(key, service, selected)
        await self._write(key, service, groups.changes(), time)
        if lost:
            text = lost[0] if len(lost) == 1 else f"[{', '.join(lost)}]"
            text = f"Error updating Endpoint Slices for Service {key}: {text}"
            self.recorder.event(service, "Warning", "FailedToUpdateEndpointSlices", text)
            raise SyncError(text)

    def _place(self, groups: SliceGroups, service: Object, selected: Iterable[Object]) -> list[str]:
        """Adds the endpoints that there should be; returns errors about pods whose nodes are gone."""
        lost = []
        for backend in backends(
            service, selected, overlooks_sidecars=self._features.slices_overlook_sidecars
        ):
            ports = [_port(port) for port in backend.ports]
            groups.group(ports)
            node = backend.pod["spec"].get("nodeName") or ""
            published = service["spec"].get("publishNotReadyAddresses")
            if self._nodes.get("", node) is None and not published:
                name = backend.pod["metadata"]["name"]
                namespace, of = service["metadata"]["namespace"], service["metadata"]["name"]
                lost.append(f"skipping Pod {name} for Service {namespace}/{of}: Node {node} Not Found")
            else:
                groups.add(_endpoint(backend), ports)
        return list(dict.fromkeys(lost))

    async def _write(self, key: Key, service: Object, changes: Changes, time: str) -> None:
        if not service["metadata"].get("deletionTimestamp"):
            owner = new_controller_reference(service, SERVICES)
            for slice_ in changes.create:
                metadata = {**slice_["metadata"], "ownerReferences": [owner]}
                await self._writer.create(key, {**slice_, "metadata": annotated(metadata, time)})
        for slice_ in changes.update:
            metadata = annotated(slice_["metadata"], time)
            await self.client.update(ENDPOINT_SLICES, {**slice_, "metadata": metadata})
        for slice_ in changes.delete:
            await self._writer.delete(slice_)


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

"""The endpoints controller: one Endpoints object per service.

Behaviour of k8s.io/kubernetes/pkg/controller/endpoint, 1.36.
"""

from collections.abc import Iterable

from kubeskew.apimachinery.client.refs import ENDPOINTS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.runtime import Panic
from kubeskew.controllers.endpoints.features import EndpointsFeatures
from kubeskew.controllers.endpoints.port_hashes import Hash, digest_of
from kubeskew.controllers.endpoints.services import (
    Backend,
    Port,
    ServiceController,
    annotated,
    backends,
    is_headless,
    selector_of,
)
from kubeskew.controllers.framework.base import ControllerContext, Key
from kubeskew.controllers.framework.pod_control import is_namespace_terminating
from kubeskew.controllers.framework.pod_controller import StaleCacheError

_HEADLESS = "service.kubernetes.io/headless"
_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
_OWN_LABELS = (_HEADLESS, _MANAGED_BY)
_CAPACITY = "endpoints.kubernetes.io/over-capacity"
_MOST_ADDRESSES = 1000


class EndpointsController(ServiceController):
    name = "endpoints-controller"
    component = "endpoint-controller"
    queue_name = "endpoint"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._features = EndpointsFeatures.of(context.environment.gates)
        self._endpoints = context.informer(ENDPOINTS)
        self._endpoints.add_handler(deleted=self.enqueue)
        self._stale: dict[Key, str] = {}  # the resourceVersion of Endpoints that are known to be out of date

    async def sync(self, key: Key) -> None:
        service = self.services.get(*key)
        present = self._endpoints.get(*key)
        if service is None:
            self.triggers.forget(key)
            self._stale.pop(key, None)
            if present is not None:
                await self._delete(key)
            return
        if not selector_of(service) or service["metadata"].get("deletionTimestamp"):
            return
        if self._features.panics_without_families and not service["spec"].get("ipFamilies"):
            raise Panic("runtime error: index out of range [0] with length 0")
        selected = self.selected(service)
        time = self.triggers.of(key, service, selected)
        found = _published(service, selected, self._features)
        digest = digest_of(self._features)
        wanted = subsets(found[:_MOST_ADDRESSES], digest, portless=not service["spec"].get("ports"))
        crowded = len(found) > _MOST_ADDRESSES
        if present is not None:
            self._refuse_stale(key, present)
            if not crowded and _says(present, service, wanted):
                return
        metadata = annotated(self._metadata(service, present or {"metadata": {}}, crowded=crowded), time)
        if present is None:
            await self._create(key, metadata, wanted)
        else:
            await self._update(key, present, {**present, "metadata": metadata, "subsets": wanted})

    def _refuse_stale(self, key: Key, present: Object) -> None:
        """Raises StaleCacheError while the informer has not seen the controller's last update."""
        version = present["metadata"]["resourceVersion"]
        if self._features.tracks_stale and self._stale.get(key) == version:
            raise StaleCacheError(
                f"endpoints informer cache is out of date, resource version {version} already processed "
                f"for endpoints {key.namespace}/{key.name}"
            )

    async def _update(self, key: Key, present: Object, wanted: Object) -> None:
        """Writes Endpoints, and remembers the version that they replace.

        Truncated ones are written at each sync, and often are as before: then they keep their version.
        """
        before = present["metadata"]["resourceVersion"]
        updated = await self.client.update(ENDPOINTS, wanted)
        changed = updated["metadata"]["resourceVersion"] != before
        if changed or self._features.takes_unchanged_for_stale:
            self._stale[key] = before

    def _metadata(self, service: Object, present: Object, *, crowded: bool) -> Object:
        labels = dict(service["metadata"].get("labels") or {})
        labels.pop(_HEADLESS, None)
        if is_headless(service):
            labels[_HEADLESS] = ""
        if self._features.managed_by_label:
            labels[_MANAGED_BY] = self.component
        annotations = dict(present["metadata"].get("annotations") or {})
        annotations.pop(_CAPACITY, None)
        if crowded:
            annotations[_CAPACITY] = "truncated"
        return {**present["metadata"], "labels": labels, "annotations": annotations}

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


def _says(endpoints: Object, service: Object, wanted: list[Object]) -> bool:
    """Truncated Endpoints are written again each time; the controller's own labels do not count."""
    metadata = endpoints["metadata"]
    labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k not in _OWN_LABELS}
    return (
        (endpoints.get("subsets") or []) == wanted
        and labels == (service["metadata"].get("labels") or {})
        and _CAPACITY not in (metadata.get("annotations") or {})
    )


def _published(service: Object, selected: Iterable[Object], features: EndpointsFeatures) -> list[Backend]:
    """Terminating pods count among those that are not ready."""
    ending = bool(service["spec"].get("publishNotReadyAddresses"))
    found = backends(service, selected, overlooks_sidecars=features.overlooks_sidecars)
    return [backend for backend in found if ending or not backend.terminating]


def subsets(found: Iterable[Backend], digest: Hash, *, portless: bool) -> list[Object]:
    """Each port comes once with all its addresses; ports with the same addresses are together
    (RepackSubsets).

    `portless`: the service has no ports.
    """
    offering: dict[Port | None, list[Backend]] = {}
    for backend in found:
        for port in (None,) if portless else backend.ports:
            offering.setdefault(port, []).append(backend)
    together: dict[tuple[Backend, ...], list[Port]] = {}
    for port, group in offering.items():
        together.setdefault(tuple(group), []).extend([port] if port else [])
    return [_subset(group, ports, digest) for group, ports in together.items()]


def _subset(group: Iterable[Backend], ports: list[Port], digest: Hash) -> Object:
    subset: Object = {}
    for name, ready in (("addresses", True), ("notReadyAddresses", False)):
        addresses = [_address(backend) for backend in group if backend.ready is ready]
        if addresses:
            subset[name] = sorted(addresses, key=lambda one: (one["ip"], one["targetRef"]["uid"]))
    if ports:
        subset["ports"] = [_port(port) for port in sorted(ports, key=lambda port: digest(_dump(port)))]
    return subset


def _dump(port: Port) -> bytes:
    application = "<nil>" if port.application is None else port.application
    fields = f"Name:(string){port.name} Port:(int32){port.port} Protocol:(v1.Protocol){port.protocol}"
    return f"(v1.EndpointPort){{{fields} AppProtocol:(*string){application}}}".encode()


def _address(backend: Backend) -> Object:
    address: Object = {"ip": backend.ip}
    if backend.hostname:
        address["hostname"] = backend.hostname
    if node := backend.pod["spec"].get("nodeName"):
        address["nodeName"] = node
    return {**address, "targetRef": backend.reference}


def _port(port: Port) -> Object:
    named = {"name": port.name} if port.name else {}
    spoken = {} if port.application is None else {"appProtocol": port.application}
    return {**named, "port": port.port, "protocol": port.protocol, **spoken}

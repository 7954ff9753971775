"""The endpoint slice mirroring controller: slices of endpoints that users write.

Source: k8s.io/kubernetes/pkg/controller/endpointslicemirroring, 1.36.
"""

import ipaddress

from kubeskew.apimachinery.client.refs import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.endpoints.features import EndpointsFeatures
from kubeskew.controllers.endpoints.port_hashes import digest_of
from kubeskew.controllers.endpoints.services import (
    ANNOTATION,
    MANAGED_BY,
    SERVICE_LABEL,
    SliceWriter,
    service_keys,
)
from kubeskew.controllers.endpoints.slice_groups import in_order
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key
from kubeskew.controllers.framework.owner_references import new_controller_reference

_MANAGER = "endpointslicemirroring-controller.k8s.io"
_SKIP = "endpointslice.kubernetes.io/skip-mirror"
_LEADER = "control-plane.alpha.kubernetes.io/leader"
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MOST_ADDRESSES = 1000  # of a subset


class EndpointSliceMirroringController(Controller):
    """Mirrors endpoints. Keys are those of Endpoints, which have the names of their services."""

    name = "endpointslice-mirroring-controller"
    component = "endpoint-slice-mirroring-controller"
    queue_name = "endpoint_slice_mirroring"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._features = EndpointsFeatures.of(context.environment.gates)
        self._services = context.informer(SERVICES)
        self._endpoints = context.informer(ENDPOINTS)
        self._slices = context.informer(ENDPOINT_SLICES)
        self._slices.add_index("mirrored", lambda slice_: service_keys(slice_, _MANAGER))
        for informer in (self._services, self._endpoints):
            informer.add_handler(self.enqueue, lambda _, new: self.enqueue(new), self.enqueue)
        self._slices.add_handler(deleted=self._slice_deleted)
        self._writer = SliceWriter(context.client)

    def _slice_deleted(self, slice_: Object) -> None:
        for key in service_keys(slice_, _MANAGER):
            self.queue.add(Key(*key.split("/", 1)))

    async def sync(self, key: Key) -> None:
        present = self._slices.by_index("mirrored", str(key))
        if self._writer.is_behind(key, present):
            self.queue.add_after(key, 0.05)
            return
        endpoints, service = self._endpoints.get(*key), self._services.get(*key)
        wanted: list[Object] = []
        unselected = service is not None and service["spec"].get("selector") is None
        if endpoints is not None and unselected and _is_mirrored(endpoints):
            wanted = self._mirrored(endpoints)
        await self._reconcile(key, wanted, present)

    def _mirrored(self, endpoints: Object) -> list[Object]:
        contents, invalid, skipped = _contents(_repacked(endpoints.get("subsets") or []))
        if invalid:
            text = f"Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices"
            self.recorder.event(endpoints, "Warning", "InvalidIPAddress", text)
        if skipped:
            limit = (
                f"A max of {_MOST_ADDRESSES} addresses can be mirrored to EndpointSlices per Endpoints subset"
            )
            text = f"{limit}. {skipped + invalid} addresses were skipped"
            self.recorder.event(endpoints, "Warning", "TooManyAddressesToMirror", text)
        digest = digest_of(self._features)
        return [
            {**_frame(endpoints), **content, "ports": in_order(content["ports"], digest)}
            for content in contents
        ]

    async def _reconcile(self, key: Key, wanted: list[Object], present: list[Object]) -> None:
        """A slice with the same ports is kept; otherwise one of the same address family is reused."""
        left, new = list(present), []
        for slice_ in wanted:
            same = next((other for other in left if _place(other) == _place(slice_)), None)
            if same is None:
                new.append(slice_)
                continue
            left.remove(same)
            await self._update(same, slice_, named=True)
        for slice_ in new:
            family = slice_["addressType"]
            used = next((slice_ for slice_ in left if slice_["addressType"] == family), None)
            if used is None:
                await self._writer.create(key, slice_)
                continue
            left.remove(used)
            await self._update(used, slice_, named=False)
        for extra in left:
            await self._writer.delete(extra)

    async def _update(self, present: Object, wanted: Object, *, named: bool) -> None:
        """Upstream writes a new slice over the old one: if `named` like it, without generateName."""
        before, after = present["metadata"], wanted["metadata"]
        same = all((present.get(name) or []) == wanted[name] for name in ("endpoints", "ports"))
        parts = ("labels", "annotations", "ownerReferences")
        if same and all((before.get(name) or {}) == after[name] for name in parts):
            return
        metadata = {**before, **{name: after[name] for name in parts}}
        if named:
            metadata.pop("generateName", None)
        await self.client.update(ENDPOINT_SLICES, {**present, **wanted, "metadata": metadata})


def _is_mirrored(endpoints: Object) -> bool:
    metadata = endpoints["metadata"]
    if (metadata.get("labels") or {}).get(_SKIP) == "true":
        return False
    return _LEADER not in (metadata.get("annotations") or {})


def _frame(endpoints: Object) -> Object:
    metadata = endpoints["metadata"]
    given = metadata.get("annotations") or {}
    return {
        "metadata": {
            "labels": {
                **(metadata.get("labels") or {}),
                SERVICE_LABEL: metadata["name"],
                MANAGED_BY: _MANAGER,
            },
            "annotations": {k: v for k, v in given.items() if k not in {ANNOTATION, _APPLIED}},
            "ownerReferences": [new_controller_reference(endpoints, ENDPOINTS)],
        },
    }


def _repacked(subsets: list[Object]) -> list[Object]:
    """Returns subsets in which each port comes once, with all its addresses (RepackSubsets).

    Ports with the same addresses are together; of an address that comes again the first one counts, and not
    ready trumps ready.
    """
    addresses: dict[tuple[str, str], Object] = {}
    offering: dict[str, dict[tuple[str, str], bool]] = {}
    ports: dict[str, Object] = {}
    for subset in subsets:
        for port in subset.get("ports") or (None,):
            named = str(port and sorted(port.items()))
            ports |= {named: port} if port else {}
            offered = offering.setdefault(named, {})
            for name, ready in (("addresses", True), ("notReadyAddresses", False)):
                for address in subset.get(name) or ():
                    key = (address["ip"], (address.get("targetRef") or {}).get("uid") or "")
                    addresses.setdefault(key, address)
                    offered[key] = ready and offered.get(key, True)
    together: dict[tuple[tuple[tuple[str, str], bool], ...], list[Object]] = {}
    for named, offered in offering.items():
        group = together.setdefault(tuple(sorted(offered.items())), [])
        group += [ports[named]] if named in ports else []
    return [
        {
            "addresses": [addresses[key] for key, ready in group if ready],
            "notReadyAddresses": [addresses[key] for key, ready in group if not ready],
            "ports": of,
        }
        for group, of in together.items()
    ]


def _contents(subsets: list[Object]) -> tuple[list[Object], int, int]:
    """The numbers are of invalid and of surplus addresses; contents are by family and set of ports."""
    found: dict[tuple[str, str], Object] = {}
    invalid = skipped = 0
    for subset in subsets:
        ports, added = [_port(port) for port in subset.get("ports") or ()], 0
        for name, ready in (("addresses", True), ("notReadyAddresses", False)):
            for address in subset.get(name) or ():
                if added >= _MOST_ADDRESSES:
                    skipped += 1
                    continue
                try:
                    ip = ipaddress.ip_address(address["ip"])
                except ValueError:
                    invalid += 1
                    continue
                added += 1
                content: Object = {"addressType": f"IPv{ip.version}", "ports": ports, "endpoints": []}
                content = found.setdefault(_place(content), content)
                content["endpoints"].append(_endpoint(address, str(ip), ready=ready))
    return list(found.values()), invalid, skipped


def _place(slice_: Object) -> tuple[str, str]:
    ports = sorted(str(sorted(port.items())) for port in slice_.get("ports") or ())
    return slice_["addressType"], str(ports)


def _port(port: Object) -> Object:
    named = {"name": port.get("name") or "", "port": port["port"], "protocol": port.get("protocol") or "TCP"}
    return named if port.get("appProtocol") is None else {**named, "appProtocol": port["appProtocol"]}


def _endpoint(address: Object, ip: str, *, ready: bool) -> Object:
    endpoint: Object = {"addresses": [ip], "conditions": {"ready": ready}}
    for name in ("targetRef", "nodeName", "hostname"):
        if address.get(name):
            endpoint[name] = address[name]
    return endpoint

"""Distributes a service's endpoints among its slices with as few writes as may be: endpoints stay where they
are, slices that change anyway are filled first, and a slice that would go becomes one that would come.

Endpoints with different ports are in different slices. Ports are compared, and sorted, by the hash of their
dump by go-spew.

Source: k8s.io/endpointslice/reconciler.go, utils.go and util/controller_utils.go, 1.36.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.endpoints.port_hashes import Hash
from kubeskew.controllers.endpoints.services import MANAGED_BY, SERVICE_LABEL, is_headless

MANAGER: Final = "endpointslice-controller.k8s.io"
MOST_ENDPOINTS: Final = 100
_HEADLESS = "service.kubernetes.io/headless"
_RESERVED = frozenset({SERVICE_LABEL, MANAGED_BY, _HEADLESS})

Ports = tuple[str, ...]  # the dumps of ports, in order
Place = tuple[tuple[str, ...], str, str, str]


@dataclass(slots=True)
class Changes:
    """The slices to write."""

    create: list[Object] = field(default_factory=list)
    update: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)


def _dump(port: Object) -> str:
    application = port.get("appProtocol")
    shown = "<nil>" if application is None else application
    return (
        f"(v1.EndpointPort){{Name:(*string){port.get('name') or ''} "
        f"Protocol:(*v1.Protocol){port.get('protocol')} Port:(*int32){port.get('port')} "
        f"AppProtocol:(*string){shown}}}"
    )


def in_order(ports: Iterable[Object], digest: Hash) -> list[Object]:
    """Returns ports as slices list them."""
    return sorted(ports, key=lambda port: digest(_dump(port).encode()))


def _key(ports: Iterable[Object] | None, digest: Hash) -> Ports:
    return tuple(_dump(port) for port in in_order(ports or (), digest))


def _place(endpoint: Object) -> Place:
    """Returns what makes two endpoints the same one."""
    reference = endpoint.get("targetRef") or {}
    return (
        tuple(sorted(endpoint["addresses"])),
        endpoint.get("hostname") or "",
        reference.get("namespace") or "",
        reference.get("name") or "",
    )


def _alike(one: Object, other: Object) -> bool:
    """Compares what endpoints of the same place may differ in."""
    return all(one.get(name) == other.get(name) for name in ("nodeName", "zone", "conditions", "targetRef"))


def owned_by(slice_: Object, service: Object) -> bool:
    """Returns whether a slice belongs to a service, and not to an earlier one of that name."""
    references = slice_["metadata"].get("ownerReferences") or ()
    uid = service["metadata"].get("uid")
    return any(
        (each["uid"], each["kind"], each["apiVersion"]) == (uid, "Service", "v1") for each in references
    )


def labels_of(service: Object) -> dict[str, str]:
    """Returns the labels of a service's slices: its own, without those that slices use themselves."""
    own = _unreserved(service["metadata"].get("labels"))
    headless = {_HEADLESS: ""} if is_headless(service) else {}
    return {**own, **headless, SERVICE_LABEL: service["metadata"]["name"], MANAGED_BY: MANAGER}


def _unreserved(labels: Mapping[str, str] | None) -> dict[str, str]:
    return {name: value for name, value in (labels or {}).items() if name not in _RESERVED}


class SliceGroups:
    """The slices of a service that there are, and the endpoints that there should be, by their ports."""

    def __init__(self, service: Object, present: Sequence[Object], digest: Hash) -> None:
        self._service = service
        self._digest = digest
        self._present = present
        self._labels = labels_of(service)
        self._ports: dict[Ports, list[Object]] = {}
        self._desired: dict[Ports, dict[Place, Object]] = {}

    def group(self, ports: Iterable[Object]) -> dict[Place, Object]:
        """Returns the endpoints with these ports, to which others can be added."""
        key = _key(ports, self._digest)
        self._ports.setdefault(key, in_order(ports, self._digest))
        return self._desired.setdefault(key, {})

    def add(self, endpoint: Object, ports: Iterable[Object]) -> None:
        self.group(ports)[_place(endpoint)] = endpoint

    def changes(self) -> Changes:
        """Returns what to write; endpoints that are added are taken out of the groups."""
        made, by_ports = Changes(), dict[Ports, list[Object]]()
        for slice_ in self._present:
            if owned_by(slice_, self._service):
                by_ports.setdefault(_key(slice_.get("ports"), self._digest), []).append(slice_)
            else:
                made.delete.append(slice_)
        for key, desired in self._desired.items():
            self._change(made, by_ports.get(key, []), desired, self._ports[key])
        for key, slices in by_ports.items():
            if key not in self._desired:
                made.delete += slices
        self._hold_place(made)
        self._reuse(made)
        return made

    def _new(self, ports: Sequence[Object]) -> Object:
        return {
            "metadata": {"labels": self._labels},
            "addressType": "IPv4",
            "endpoints": [],
            "ports": list(ports),
        }

    def _change(
        self, made: Changes, slices: Sequence[Object], desired: dict[Place, Object], ports: Sequence[Object]
    ) -> None:
        """Keeps, changes and fills the slices with the same ports."""
        update, unchanged = list[Object](), list[Object]()
        for slice_ in slices:
            kept, updated = list[Object](), False
            present = slice_.get("endpoints") or []
            for endpoint in present:
                found = desired.pop(_place(endpoint), None)
                if found is not None:
                    kept.append(found)
                    updated = updated or not _alike(found, endpoint)
            relabelled = _unreserved(slice_["metadata"].get("labels")) != _unreserved(self._labels)
            if updated or len(kept) != len(present):
                if kept:
                    update.append(self._labelled({**slice_, "endpoints": kept}))
                else:
                    made.delete.append(slice_)
            elif relabelled:
                update.append(self._labelled({**slice_, "endpoints": list(present)}))
            else:
                unchanged.append(slice_)
        for slice_ in sorted(update, key=lambda one: -len(one["endpoints"])):
            _fill(slice_, desired)
        while desired:
            chosen = _best(unchanged, len(desired)) if len(desired) < MOST_ENDPOINTS else None
            if chosen is None:
                filled = self._new(ports)
                made.create.append(filled)
            else:
                unchanged.remove(chosen)
                filled = {**chosen, "endpoints": list(chosen.get("endpoints") or ())}
                update.append(filled)
            _fill(filled, desired)
        made.update += update

    def _labelled(self, slice_: Object) -> Object:
        return {**slice_, "metadata": {**slice_["metadata"], "labels": self._labels}}

    def _hold_place(self, made: Changes) -> None:
        """Makes a slice without endpoints where there would be none, or keeps it."""
        if len(self._present) != len(made.delete) or made.create:
            return
        if len(made.delete) == 1 and self._holds_place(made.delete[0]):
            made.delete.clear()
        else:
            made.create.append(self._new(()))

    def _holds_place(self, slice_: Object) -> bool:
        return (
            not slice_.get("endpoints")
            and not slice_.get("ports")
            and slice_["addressType"] == "IPv4"
            and (slice_["metadata"].get("labels") or {}) == self._labels
            and owned_by(slice_, self._service)
        )

    def _reuse(self, made: Changes) -> None:
        for slice_ in list(made.delete):
            if not made.create:
                break
            if slice_["addressType"] == "IPv4" and owned_by(slice_, self._service):
                new = made.create.pop()
                metadata = {**slice_["metadata"], "labels": self._labels, "annotations": {}}
                made.update.append({**slice_, **new, "metadata": metadata})
                made.delete.remove(slice_)


def _fill(slice_: Object, desired: dict[Place, Object]) -> None:
    while desired and len(slice_["endpoints"]) < MOST_ENDPOINTS:
        slice_["endpoints"].append(desired.pop(next(iter(desired))))


def _best(slices: Iterable[Object], count: int) -> Object | None:
    """Returns the slice that will be fullest, if all of `count` fit into one."""
    best, least = None, MOST_ENDPOINTS
    for slice_ in slices:
        left = MOST_ENDPOINTS - count - len(slice_.get("endpoints") or ())
        if 0 <= left < least:
            best, least = slice_, left
    return best

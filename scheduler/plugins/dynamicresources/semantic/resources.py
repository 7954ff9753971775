"""Keeps the resources that drivers publish for nodes, and the parts of them that claims have.

Source: KEP-4381 as drafted, sections NodeResourceSlice and ResourceHandle extension.
"""

import logging
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import allocation, display
from kubeskew.scheduler.framework.simulation import copied_name
from kubeskew.scheduler.plugins.dynamicresources.semantic.models import Model, SemanticError, model_of

log = logging.getLogger(__name__)


class Place(NamedTuple):
    """Resources belong to one node and one driver."""

    node: str
    driver: str


class Part(NamedTuple):
    """One attribute of one resource, as a model sees it."""

    place: Place
    resource: str
    attribute: str
    model: str


class Attribute(NamedTuple):
    """`value` is as the model has read it."""

    model: Model
    value: Any


@dataclass(frozen=True, slots=True)
class Resource:
    id: str
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True, slots=True)
class Slice:
    """Without resources, and with the reason, if the slice cannot be understood."""

    resources: Sequence[Resource] = ()
    error: str = ""


class SemanticResources:
    """Resources of all nodes, and the claims that have them; without I/O or clock."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = models
        self._slices: dict[Place, dict[str, Slice]] = {}  # of the slices' names
        self._places: dict[str, Place] = {}  # of the slices, by name
        self._listed: dict[Place, list[Resource]] = {}  # made when they are first asked for
        self._written: dict[str, Object] = {}  # by uid: claims that are allocated
        self._decided: dict[str, Object] = {}  # by uid: claims whose allocation is not written yet
        self._counted: dict[str, list[tuple[Part, Object]]] = {}  # by uid: what is in `_taken`
        self._taken: dict[Part, Hashable] = {}
        self._unreadable: dict[str, dict[Place, str]] = {}  # by uid: claims with a result of an unknown model

    def copy(self) -> "SemanticResources":
        """No claim has anything of the copied resources yet."""
        copy = SemanticResources(self._models)
        copy._slices = {place: {**slices} for place, slices in self._slices.items()}
        copy._places = {**self._places}
        return copy

    # -- what there is

    def copy_node(self, name: str, origin: str) -> None:
        """Gives the node copies of what drivers published about `origin`."""
        published = [
            (slice_name, place.driver, read)
            for place, slices in self._slices.items()
            if place.node == origin != name
            for slice_name, read in slices.items()
        ]
        for slice_name, driver, read in published:
            self._put(copied_name(slice_name, name), Place(name, driver), read)

    def drop_node(self, name: str) -> None:
        for slice_name, place in [*self._places.items()]:
            if place.node == name:
                self.remove_slice({"metadata": {"name": slice_name}})

    def set_slice(self, published: Object) -> None:
        name = published["metadata"]["name"]
        self.remove_slice(published)
        place = Place(published.get("nodeName") or "", published.get("driverName") or "")
        try:
            read = Slice([*self._read(published)])
        except SemanticError as error:
            read = Slice(error=f"NodeResourceSlice {name}: {error}")
            log.warning("%s", read.error)
        self._put(name, place, read)

    def _put(self, name: str, place: Place, read: Slice) -> None:
        self._places[name] = place
        self._slices.setdefault(place, {})[name] = read
        self._listed.pop(place, None)

    def remove_slice(self, published: Object) -> None:
        name = published["metadata"]["name"]
        place = self._places.pop(name, None)
        if place is not None:
            self._listed.pop(place, None)
            del self._slices[place][name]
            if not self._slices[place]:
                del self._slices[place]

    def _read(self, published: Object) -> Iterator[Resource]:
        for resource in published.get("resources") or ():
            named, attributes = resource.get("id") or resource.get("name") or "", {}
            for given in resource.get("attributes") or ():
                what = f'attribute "{given.get("name", "")}" of resource "{named}"'
                model = model_of(self._models, given, what)
                try:
                    value = model.attribute(given[model.name])
                except SemanticError as error:
                    raise SemanticError(f"{what}: {error}") from error
                attributes[given["name"]] = Attribute(model, value)
            yield Resource(named, attributes)

    def resources(self, place: Place) -> Sequence[Resource]:
        """Resources come in the order of their slices' names."""
        found = self._listed.get(place)
        if found is None:
            slices = self._slices.get(place, {})
            found = [resource for name in sorted(slices) for resource in slices[name].resources]
            self._listed[place] = found
        return found

    def errors(self, place: Place) -> list[str]:
        slices = self._slices.get(place, {})
        return [slices[name].error for name in sorted(slices) if slices[name].error]

    # -- what claims have of it

    def set_claim(self, claim: Object) -> None:
        uid = claim["metadata"]["uid"]
        if semantic_handles(claim):
            self._written[uid] = claim
        else:
            self._written.pop(uid, None)
        self._count(uid)

    def remove_claim(self, claim: Object) -> None:
        self._written.pop(claim["metadata"]["uid"], None)
        self._count(claim["metadata"]["uid"])

    def decide(self, claim: Object) -> None:
        """The allocation that the claim will get counts instead of the one that is written."""
        self._decided[claim["metadata"]["uid"]] = claim
        self._count(claim["metadata"]["uid"])

    def land(self, uid: str) -> None:
        """The written allocation counts again."""
        self._decided.pop(uid, None)
        self._count(uid)

    @property
    def allocated(self) -> int:
        return len(self._written)

    def taken(self, part: Part) -> Hashable:
        return self._taken.get(part, self._models[part.model].nothing)

    def unreadable(self, place: Place) -> str:
        """Reason why the taken resources are not known there; empty if they are."""
        return next((places[place] for places in self._unreadable.values() if place in places), "")

    def _count(self, uid: str) -> None:
        for part, result in self._counted.pop(uid, ()):
            model = self._models[part.model]
            left = model.free(self.taken(part), result)
            if left == model.nothing:
                self._taken.pop(part, None)
            else:
                self._taken[part] = left
        self._unreadable.pop(uid, None)
        claim = self._decided.get(uid) or self._written.get(uid)
        if claim is not None:
            self._counted[uid] = [*self._results(claim)]
        for part, result in self._counted.get(uid, ()):
            model = self._models[part.model]
            self._taken[part] = model.take(self.taken(part), result)

    def _results(self, claim: Object) -> Iterator[tuple[Part, Object]]:
        for driver, handle in semantic_handles(claim):
            place = Place(handle.get("nodeName") or "", driver)
            for result in handle.get("allocations") or ():
                try:
                    model = model_of(self._models, result, f"an allocation of claim {display(claim)}")
                except SemanticError as error:
                    log.warning("%s", error)
                    self._unreadable.setdefault(claim["metadata"]["uid"], {})[place] = str(error)
                    continue
                given = result[model.name]
                part = Part(place, given.get("resourceID") or "", given.get("name") or "", model.name)
                yield part, given


def semantic_handles(claim: Mapping[str, Any]) -> list[tuple[str, Object]]:
    """Pairs driver and semantic data of what the claim has; drivers' own allocations have none."""
    handles: Iterable[Object] = (allocation(claim) or {}).get("resourceHandles") or ()
    return [
        (handle.get("driverName") or "", handle["semanticData"])
        for handle in handles
        if handle.get("semanticData") is not None
    ]

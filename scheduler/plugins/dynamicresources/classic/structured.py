"""Allocates claims by structured parameters, as 1.30 does: the glue between parameters, slices and claims."""

from collections.abc import Callable, Iterator, Sequence

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.status import SUCCESS, Status, unresolvable
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.classic.named_resources import (
    NamedResourcesError,
    ResourceModel,
    StructuredClaim,
)
from kubeskew.scheduler.plugins.dynamicresources.classic.parameters import Parameters
from kubeskew.scheduler.plugins.dynamicresources.scheduler_allocation import UNSUITABLE

Slices = Callable[[], Sequence[Object]]


class FreeInstances:
    """The instances that are free at the beginning of an attempt."""

    def __init__(self, model: ResourceModel) -> None:
        self._model = model

    def check(self, node: NodeInfo, claims: Sequence[StructuredClaim]) -> Status:
        try:
            suits = all(claim.suits(node.name, self._model) for claim in claims)
        except NamedResourcesError as error:
            return unresolvable(f"checking structured parameters failed: {error}")
        return SUCCESS if suits else UNSUITABLE

    def allocate(self, node: str, claims: Sequence[StructuredClaim]) -> list[Object]:
        return [claim.allocate(node, self._model) for claim in claims]


class StructuredAllocation:
    """The claims of classes with `structuredParameters`."""

    def __init__(self, claims: ClaimTracker, parameters: Parameters, slices: Slices) -> None:
        self._claims = claims
        self._parameters = parameters
        self._slices = slices
        self._in_flight: dict[str, Object] = {}  # by uid: claims with the allocation that they will get

    def handles(self, resource_class: Object) -> bool:
        return bool(resource_class.get("structuredParameters"))

    def claim(self, claim: Object, resource_class: Object) -> StructuredClaim:
        of_class = self._parameters.of_class(resource_class)
        return StructuredClaim(resource_class, of_class, self._parameters.of_claim(claim, resource_class))

    def resources(self) -> FreeInstances:
        return FreeInstances(ResourceModel(self._slices(), self._known()))

    def _known(self) -> Iterator[Object]:
        for claim in self._claims.all():
            if claim["metadata"]["uid"] not in self._in_flight:
                yield claim
        yield from self._in_flight.values()

    def is_in_flight(self, uid: str) -> bool:
        return uid in self._in_flight

    def decide(self, claim: Object, result: Object) -> None:
        status = {**(claim.get("status") or {}), "allocation": result}
        self._in_flight[claim["metadata"]["uid"]] = {**claim, "status": status}

    def land(self, claim: Object, *, written: bool) -> None:
        self._in_flight.pop(claim["metadata"]["uid"], None)

    def simulated(self, claims: ClaimTracker) -> tuple[ClaimTracker, "SimulatedStructuredAllocation"]:
        copy = claims.copy()
        return copy, SimulatedStructuredAllocation(copy, self._parameters, self._slices())


class SimulatedStructuredAllocation(StructuredAllocation):
    """Allocates from slices that do not change but for nodes that are added."""

    def __init__(self, claims: ClaimTracker, parameters: Parameters, slices: Sequence[Object]) -> None:
        super().__init__(claims, parameters, lambda: self._simulated)
        self._simulated = list(slices)

    def add_node(self, name: str, origin: str) -> None:
        found = [slice_ for slice_ in self._simulated if slice_.get("nodeName") == origin]
        self._simulated += [{**slice_, "nodeName": name} for slice_ in found]

    def remove_node(self, name: str) -> None:
        self._simulated = [slice_ for slice_ in self._simulated if slice_.get("nodeName") != name]

"""Allocates claims by semantic parameters: decides which resources of a node the claims of a pod get, each
claim one resource of its driver.

Sources: KEP-4381 as drafted, sections ResourceClaimParameters and ResourceHandle extension; KEP-4381 as
drafted, section Scheduling + Allocation.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable, display
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.status import SUCCESS, Status, unresolvable
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import CLAIM_UPDATED, ClaimTracker, Listener
from kubeskew.scheduler.plugins.dynamicresources.classic.scheduler_allocation import UNSUITABLE
from kubeskew.scheduler.plugins.dynamicresources.semantic.models import (
    Model,
    Requirement,
    SemanticError,
    model_of,
)
from kubeskew.scheduler.plugins.dynamicresources.semantic.parameters import SemanticParameters
from kubeskew.scheduler.plugins.dynamicresources.semantic.resources import (
    Part,
    Place,
    Resource,
    SemanticResources,
)

# Choices that are tried on one node until the claims of a pod count as not fitting together.
_MAX_CHOICES = 1_000


@dataclass(frozen=True, slots=True)
class ParameterRequest:
    """Asks for an attribute with the parameter's name."""

    name: str
    model: Model
    requirement: Requirement


@dataclass(frozen=True, slots=True)
class SemanticClaim:
    """A claim that the scheduler is to allocate, with the parameters as they were when that began."""

    driver: str
    requests: Sequence[ParameterRequest]
    shareable: bool
    class_parameters: Object | None = None
    claim_parameters: Object | None = None

    def suits(self, place: Place, resource: Resource, taken: Callable[[Part], Hashable]) -> bool:
        """Raises SemanticError."""
        for request in self.requests:
            attribute = resource.attributes.get(request.name)
            if attribute is None:
                return False
            part = Part(place, resource.id, request.name, request.model.name)
            try:
                if not request.requirement.match(attribute.value, taken(part)):
                    return False
            except SemanticError as error:
                raise SemanticError(
                    f'parameter "{request.name}" at resource "{resource.id}": {error}'
                ) from error
        return True

    def check_models(self, resource: Resource) -> None:
        """Raises SemanticError for an attribute that has a parameter's name and another model."""
        for request in self.requests:
            attribute = resource.attributes.get(request.name)
            if attribute is not None and attribute.model is not request.model:
                raise SemanticError(
                    f'parameter "{request.name}" is of semantic model {request.model.name}, attribute '
                    f'"{request.name}" of resource "{resource.id}" of driver {self.driver} is of '
                    f"{attribute.model.name}"
                )

    def parts(self, place: Place, resource: Resource) -> list[tuple[Part, Model, Mapping[str, Any]]]:
        """Lists the parts of the resource that the claim takes, each with its model and allocation result."""
        found = []
        for request in self.requests:
            result = request.requirement.allocate()
            if result is not None:
                part = Part(place, resource.id, request.name, request.model.name)
                found.append((part, request.model, result))
        return found

    def allocation(self, place: Place, resource: Resource) -> Object:
        """The allocation keeps the parameters that led to it."""
        data: Object = {"nodeName": place.node, "resourceID": resource.id}
        snapshots = {"classParameters": self.class_parameters, "claimParameters": self.claim_parameters}
        data |= {name: snapshot for name, snapshot in snapshots.items() if snapshot is not None}
        allocations = [
            {model.name: {"resourceID": part.resource, "name": part.attribute, **result}}
            for part, model, result in self.parts(place, resource)
        ]
        if allocations:
            data["allocations"] = allocations
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [place.node]}
        result: Object = {
            "availableOnNodes": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]},
            "resourceHandles": [{"driverName": self.driver, "semanticData": data}],
        }
        if self.shareable:
            result["shareable"] = True
        return result


def parameter_requests(models: Mapping[str, Model], parameters: Object) -> list[ParameterRequest]:
    """Raises SemanticError for a parameter that its model cannot read."""
    found = []
    for given in parameters.get("parameters") or ():
        what = f'parameter "{given.get("name", "")}"'
        model = model_of(models, given, what)
        try:
            requirement = model.requirement(given[model.name])
        except SemanticError as error:
            raise SemanticError(f"{what}: {error}") from error
        found.append(ParameterRequest(given["name"], model, requirement))
    return found


@dataclass(slots=True)
class NodeSearch:
    """Looks for resources of one node for several claims, which must not get the same part twice."""

    resources: SemanticResources
    node: str
    _more: dict[Part, Hashable] = field(default_factory=dict)  # taken by the claims that have a resource
    _dead_ends: set[tuple[int, frozenset[tuple[Part, Hashable]]]] = field(default_factory=set)
    _choices: int = 0
    _errors: dict[str, None] = field(default_factory=dict)

    def find(self, claims: Sequence[SemanticClaim]) -> list[Resource] | None:
        """One resource for each claim; None if there are none.

        Raises SemanticError if that could not be found out: a resource is of another model than the
        parameters, or what is taken is not known, or nothing fits and some of it could not be judged.
        """
        offers = [self._offers(claim) for claim in claims]
        # The claim with the fewest offers first: what is scarce is not given to others then.
        order = sorted(range(len(claims)), key=lambda index: len(offers[index]))
        chosen = self._choose([claims[index] for index in order], [offers[index] for index in order], 0)
        if chosen is None:
            for claim in claims:
                self._errors.update(dict.fromkeys(self.resources.errors(self.place(claim))))
            if self._errors:
                raise SemanticError(next(iter(self._errors)))
            return None
        return [resource for _, resource in sorted(zip(order, chosen, strict=True), key=lambda pair: pair[0])]

    def place(self, claim: SemanticClaim) -> Place:
        return Place(self.node, claim.driver)

    def _offers(self, claim: SemanticClaim) -> list[Resource]:
        unreadable = self.resources.unreadable(self.place(claim))
        if unreadable:
            raise SemanticError(unreadable)
        published = self.resources.resources(self.place(claim))
        for resource in published:
            claim.check_models(resource)
        return [resource for resource in published if self._suits(claim, resource)]

    def _suits(self, claim: SemanticClaim, resource: Resource) -> bool:
        try:
            return claim.suits(self.place(claim), resource, self._taken)
        except SemanticError as error:
            self._errors[str(error)] = None
            return False

    def _taken(self, part: Part) -> Hashable:
        return self._more[part] if part in self._more else self.resources.taken(part)

    def _are_alike(self, place: Place, one: Resource, other: Resource) -> bool:
        return one.attributes == other.attributes and all(
            self._taken(Part(place, one.id, name, attribute.model.name))
            == self._taken(Part(place, other.id, name, attribute.model.name))
            for name, attribute in one.attributes.items()
        )

    def _choose(
        self, claims: Sequence[SemanticClaim], offers: Sequence[Sequence[Resource]], index: int
    ) -> list[Resource] | None:
        if index == len(claims):
            return []
        state = index, frozenset(self._more.items())
        if state in self._dead_ends:
            return None
        claim, place, tried = claims[index], self.place(claims[index]), list[Resource]()
        for resource in offers[index]:
            if any(self._are_alike(place, resource, other) for other in tried):
                continue
            tried.append(resource)
            self._choices += 1
            if self._choices > _MAX_CHOICES:
                raise SemanticError(f"too many ways to give {len(claims)} claims the resources of a node")
            if self._more and not self._suits(claim, resource):
                continue
            before = dict(self._more)
            for part, model, result in claim.parts(place, resource):
                self._more[part] = model.take(self._taken(part), result)
            rest = self._choose(claims, offers, index + 1)
            if rest is not None:
                return [resource, *rest]
            self._more = before
        self._dead_ends.add(state)
        return None


class NodeResources:
    """Reads and allocates resources of nodes for the claims of one pod, during an attempt."""

    def __init__(self, resources: SemanticResources) -> None:
        self._resources = resources

    def check(self, node: NodeInfo, claims: Sequence[SemanticClaim]) -> Status:
        search = NodeSearch(self._resources, node.name)
        try:
            return UNSUITABLE if search.find(claims) is None else SUCCESS
        except SemanticError as error:
            return unresolvable(f"checking semantic parameters failed: {error}")

    def allocate(self, node: str, claims: Sequence[SemanticClaim]) -> list[Object]:
        """Chooses again: since the node was found, others may have taken what there was."""
        search = NodeSearch(self._resources, node)
        try:
            found = search.find(claims)
        except SemanticError as error:
            raise ClaimNotUsable(f"checking semantic parameters failed: {error}") from error
        if found is None:
            raise ClaimNotUsable(f"the resources of node {node} are taken in the meantime")
        return [
            claim.allocation(search.place(claim), resource)
            for claim, resource in zip(claims, found, strict=True)
        ]


class SemanticAllocation:
    """Allocates the claims of classes with `parameterTypes`."""

    def __init__(
        self,
        models: Mapping[str, Model],
        resources: SemanticResources,
        parameters: SemanticParameters,
        finalizer: str,
    ) -> None:
        self._models = models
        self._resources = resources
        self._parameters = parameters
        self._finalizer = finalizer
        self._in_flight: dict[str, Object] = {}  # by uid: claims with the allocation that they will get
        self.listener: Listener = lambda *_: None

    def handles(self, resource_class: Object) -> bool:
        return bool(resource_class.get("parameterTypes"))

    def claim(self, claim: Object, resource_class: Object) -> SemanticClaim:
        of_class = self._parameters.of_class(resource_class)
        found = self._parameters.of_claim(claim, resource_class)
        try:
            asked = parameter_requests(self._models, found.parameters)
        except SemanticError as error:
            raise ClaimNotUsable(f"claim parameters {display(found.parameters)}: {error}") from error
        return SemanticClaim(
            resource_class["driverName"],
            asked,
            bool(found.parameters.get("shareable")),
            of_class,
            found.snapshot,
        )

    def resources(self) -> NodeResources:
        return NodeResources(self._resources)

    def is_in_flight(self, uid: str) -> bool:
        return uid in self._in_flight

    def decide(self, claim: Object, result: Object) -> None:
        metadata = {**claim["metadata"], "finalizers": [self._finalizer]}
        status = {**(claim.get("status") or {}), "allocation": result}
        decided = {**claim, "metadata": metadata, "status": status}
        self._in_flight[claim["metadata"]["uid"]] = decided
        self._resources.decide(decided)

    def land(self, claim: Object, *, written: bool) -> None:
        """An allocation that is given up is reported like a deallocated claim: others may wait for it."""
        decided = self._in_flight.pop(claim["metadata"]["uid"], None)
        self._resources.land(claim["metadata"]["uid"])
        if decided is not None and not written:
            self.listener(CLAIM_UPDATED, decided, claim)

    def simulated(self, claims: ClaimTracker) -> tuple[ClaimTracker, "SimulatedSemanticAllocation"]:
        resources = self._resources.copy()
        made = SimulatedSemanticAllocation(self._models, resources, self._parameters, self._finalizer)
        return claims.copy(resources), made


class SimulatedSemanticAllocation(SemanticAllocation):
    """Allocates resources that do not change but for nodes that are added."""

    def add_node(self, name: str, origin: str) -> None:
        self._resources.copy_node(name, origin)

    def remove_node(self, name: str) -> None:
        self._resources.drop_node(name)

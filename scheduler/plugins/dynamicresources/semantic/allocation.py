"""Allocates claims by semantic parameters: the glue between parameters, resources and the plugin.

Source: KEP-4381 as drafted, section Scheduling + Allocation.
"""

from collections.abc import Mapping, Sequence

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable, display
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.status import SUCCESS, Status, unresolvable
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import CLAIM_UPDATED, ClaimTracker, Listener
from kubeskew.scheduler.plugins.dynamicresources.scheduler_allocation import UNSUITABLE
from kubeskew.scheduler.plugins.dynamicresources.semantic.claims import (
    NodeSearch,
    SemanticClaim,
    parameter_requests,
)
from kubeskew.scheduler.plugins.dynamicresources.semantic.models.model import Model, SemanticError
from kubeskew.scheduler.plugins.dynamicresources.semantic.parameters import SemanticParameters
from kubeskew.scheduler.plugins.dynamicresources.semantic.resources import SemanticResources


class NodeResources:
    """Knows what nodes have for the claims of a pod, at any moment of an attempt."""

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
    """The claims of classes with `parameterTypes`."""

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
        """Tells of what is given up as of a claim that is deallocated: others may wait for it."""
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

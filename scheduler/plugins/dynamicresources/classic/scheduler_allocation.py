"""The scheduler's own allocation, as far as the plugin of classic releases needs it.

It is by 1.30's structured parameters, or by semantic parameters as KEP-4381 drafted them. Parameters are
found by the vendors' parameters from which they were generated.

Source: pkg/scheduler/framework/plugins/dynamicresources, 1.30 (lookupParameters).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kubeskew.apimachinery.client.informer import Informer, InformerFactory
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable
from kubeskew.scheduler.framework.events import EventHint
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.status import Status, unresolvable
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimObserver, ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.driver_allocation import GetClass
from kubeskew.scheduler.queue import SchedulingQueue

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

UNSUITABLE = unresolvable("resourceclaim cannot be allocated for the node (unsuitable)")
GROUP = "resource.k8s.io"
_INDEX = "generatedFrom"


class AllocationError(Exception):
    """Something that needs no waiting for prevents an allocation; the text is for people."""


class HandledClaim(Protocol):
    @property
    def driver(self) -> str: ...


class Resources(Protocol):
    """Allocates during one attempt at a pod, whose `claims` are as `claim` made them."""

    def check(self, node: NodeInfo, claims: Sequence[Any]) -> Status: ...

    def allocate(self, node: str, claims: Sequence[Any]) -> Sequence[Object]:
        """One allocation per claim. Raises AllocationError, or ClaimNotUsable where the node does not have it
        any more."""


class SchedulerAllocation(Protocol):
    """Allocates claims of some classes; all profiles of a scheduler share it."""

    def handles(self, resource_class: Object) -> bool: ...

    def claim(self, claim: Object, resource_class: Object) -> HandledClaim:
        """Raises ClaimNotUsable if the parameters are not there yet, or AllocationError."""

    def resources(self) -> Resources: ...

    def is_in_flight(self, uid: str) -> bool: ...

    def decide(self, claim: Object, result: Object) -> None: ...

    def land(self, claim: Object, *, written: bool) -> None:
        """Ends what `decide` began, after the write or without."""

    def simulated(self, claims: ClaimTracker) -> tuple[ClaimTracker, "SimulatedAllocation"]:
        """Copies the claims, for allocations that the original does not see."""


class OwnAllocation(Protocol):
    """A room's way to allocate claims of some classes in the scheduler itself, next to their drivers."""

    @property
    def resources(self) -> ClaimObserver: ...

    def connect(
        self, factory: InformerFactory, queue: SchedulingQueue, classes: dict[str, Object]
    ) -> SchedulerAllocation:
        """`classes` are followed already, by name."""

    def show_metrics(self, registry: "CollectorRegistry") -> None:
        """Called once per profile."""

    def hints(
        self, claims_of: Callable[[Object], Sequence[Object] | None], get_class: GetClass
    ) -> Sequence[EventHint]:
        """`claims_of` returns the claims of a pod; None if one is missing or unusable."""

    def has_allocated(self, claim: Object) -> bool: ...

    def allocates(self, resource_class: Object) -> bool: ...


class SimulatedAllocation(SchedulerAllocation, Protocol):
    def add_node(self, name: str, origin: str) -> None:
        """Gives the node copies of what drivers published about `origin`."""

    def remove_node(self, name: str) -> None: ...


class ParametersError(AllocationError):
    """The parameters are ambiguous; the text is upstream's."""


def refers_to(reference: Mapping[str, Any] | None, parameters: Object, kind: str) -> bool:
    """A reference means parameters directly, or by the object from which they were generated."""
    if reference is None:
        return False
    if reference.get("apiGroup") == GROUP and reference.get("kind") == kind:
        return bool(reference["name"] == parameters["metadata"]["name"])
    origin = parameters.get("generatedFrom") or {}
    keys = ("apiGroup", "kind", "name")
    return all((origin.get(key) or "") == (reference.get(key) or "") for key in keys)


class GeneratedParameters:
    def __init__(self, informer: Informer, *, same_namespace: bool = True) -> None:
        """Without `same_namespace`, the object from which parameters were generated has a namespace in
        `generatedFrom`; otherwise it has theirs."""
        self.informer = informer
        informer.add_index(_INDEX, partial(_generated_from, same_namespace=same_namespace))

    def only(
        self,
        what: str,
        reference: Mapping[str, Any],
        namespace: str,
        suits: Callable[[Object], bool] = lambda _: True,
        wanted: str = "",
    ) -> Object:
        """Finds the parameters whose `generatedFrom` suits.

        Raises ClaimNotUsable if there are none, ParametersError if there are several. Errors have `wanted`
        after the object's name.
        """
        kind, group, name = reference["kind"], reference.get("apiGroup") or "", reference["name"]
        shown = f"{kind}.{group} " + (f"{namespace}/{name}" if namespace else name) + wanted
        known = self.informer.by_index(_INDEX, _key(reference, namespace))
        found = [parameters for parameters in known if suits(parameters["generatedFrom"])]
        if not found:
            raise ClaimNotUsable(f"generated {what} parameters for {shown} not found")
        if len(found) > 1:
            listed = " ".join(sorted(f"{namespace}/{obj['metadata']['name']}" for obj in found))
            raise ParametersError(f"multiple generated {what} parameters for {shown} found: [{listed}]")
        return found[0]


def _generated_from(parameters: Object, *, same_namespace: bool) -> list[str]:
    origin = parameters.get("generatedFrom")
    if not origin:
        return []
    namespace = parameters["metadata"]["namespace"] if same_namespace else origin.get("namespace") or ""
    return [_key(origin, namespace)]


def _key(reference: Mapping[str, Any], namespace: str) -> str:
    return "/".join((reference.get("apiGroup") or "", reference["kind"], namespace, reference["name"]))

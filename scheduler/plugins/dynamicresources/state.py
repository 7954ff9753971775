"""Holds what DynamicResources remembers during one attempt at one pod."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.allocator import Allocator, NodeSolution
from kubeskew.scheduler.allocator.claims import allocation
from kubeskew.scheduler.allocator.requests import ClaimPlan
from kubeskew.scheduler.plugins.dynamicresources.classic.state import DriverClaims
from kubeskew.scheduler.plugins.dynamicresources.extended_resource_claim import ClaimRequests


@dataclass(slots=True)
class PodClaim:
    """A claim of the pod. `result` is set by Reserve and written by PreBind."""

    claim: Object
    consumer: Object  # the entry of reservedFor that lets the pod use it
    result: Object | None = None

    @property
    def uid(self) -> str:
        return str(self.claim["metadata"]["uid"])

    @property
    def is_driven(self) -> bool:
        """Returns whether a driver's controller allocates it (1.31)."""
        return bool(self.claim["spec"].get("controller"))

    @property
    def node_selector(self) -> Mapping[str, Any] | None:
        """Returns the selector of nodes where an allocated claim can be used; None is everywhere."""
        found: Mapping[str, Any] | None = (allocation(self.claim) or {}).get("nodeSelector")
        return found


@dataclass(slots=True)
class ExtendedResourceClaim:
    """The extended-resource claim: in memory until PreBind, or left over from an earlier attempt."""

    claim: Object
    exists: bool  # exists on the server
    resources: tuple[tuple[str, bool], ...]  # the pod's resources, and whether a class backs them
    pending_uid: str = ""  # the key of its allocation in flight
    result: Object | None = None
    mappings: Sequence[Object] = ()


@dataclass(frozen=True, slots=True)
class ExtendedResourcePlan:
    """The extended-resource claim as it is on nodes where DRA backs the same resources."""

    claim: Object
    requests: ClaimRequests
    plan: ClaimPlan


class NodeChoice(NamedTuple):
    """The result of Filter for a node."""

    found: NodeSolution | None
    extended_plan: ExtendedResourcePlan | None


@dataclass(slots=True)
class PodState:
    """Written by PreFilter, used by all later extension points."""

    claims: list[PodClaim]
    extended_claim: ExtendedResourceClaim | None
    allocator: Allocator
    plans: list[ClaimPlan]  # plans of the claims that need an allocation
    usual_extended_plan: ExtendedResourcePlan | None = (
        None  # on nodes where DRA alone has all that classes back
    )
    signature: object | None = None  # of pods that want the same one device: nodes keep their answer under it
    allocation_epoch: object = None  # that answer is valid while this is the same
    choices: dict[str, NodeChoice] = field(default_factory=dict)  # by node
    extended_plans: dict[tuple[str, ...], ExtendedResourcePlan] = field(default_factory=dict)  # by resources
    pinned: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)  # claim → its node selector
    lost: Sequence[int] = ()  # claims whose devices failed to become ready
    unavailable: set[int] = field(default_factory=set)  # claims that kept the pod from some node
    driven: DriverClaims | None = None  # claims that drivers' controllers allocate (1.31)

    @property
    def to_allocate(self) -> list[PodClaim]:
        return [claim for claim in self.claims if allocation(claim.claim) is None and not claim.is_driven]

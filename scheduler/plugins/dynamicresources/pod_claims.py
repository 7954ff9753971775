"""The claims of a pod: which it has, for whom they are made and reserved (pods, or the groups that they are
scheduled with, KEP-5729), whether it can be scheduled with them at all, and the state of one attempt.

Source: k8s.io/dynamic-resource-allocation/resourceclaim, 1.36 (IsForPod, IsReservedForPod, BindTo).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kubeskew.apimachinery.claim_users import POD_GROUPS, is_for_pod, pod_group_of, reservation
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.allocator import Allocator, NodeSolution
from kubeskew.scheduler.allocator.claims import ClaimNotUsable, allocation, claim_names, display
from kubeskew.scheduler.allocator.requests import ClaimPlan
from kubeskew.scheduler.features import DynamicResourcesFeatures
from kubeskew.scheduler.framework.status import SUCCESS, Status, failed, unresolvable
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.extended_resource_claim import ClaimRequests
from kubeskew.scheduler.plugins.dynamicresources.taint_rules import DeviceClasses

GetGroup = Callable[[str, str], Object | None]  # namespace, name


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
        return bool(self.claim["spec"].get("controller"))

    @property
    def node_selector(self) -> Mapping[str, Any] | None:
        """Limits the nodes where an allocated claim can be used; None allows all."""
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
    """PreFilter writes it, all later extension points use it."""

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
    driven: Any = None  # claims that drivers' controllers allocate (1.31), None if there are none such

    @property
    def to_allocate(self) -> list[PodClaim]:
        return [claim for claim in self.claims if allocation(claim.claim) is None and not claim.is_driven]


class ClaimUsers:
    def __init__(self, get_group: GetGroup | None, *, capitalized: bool) -> None:
        """`get_group` is None with DRAWorkloadResourceClaims off; with `capitalized`, errors say "Pod" for a
        pod."""
        self._get_group = get_group
        self._kind = "Pod" if capitalized else "pod"

    def check_owner(self, claim: Mapping[str, Any], pod: Object) -> None:
        """Raises ClaimNotUsable for a claim that was made for another pod or group."""
        groups = self._get_group is not None
        if is_for_pod(claim, pod, groups=groups):
            return
        metadata, group = pod["metadata"], pod_group_of(pod) if groups else ""
        why = f"neither Pod nor PodGroup {group} is the owner" if group else f"{self._kind} is not owner"
        name = f"{metadata.get('namespace', '')}/{metadata['name']}"
        raise ClaimNotUsable(
            f"ResourceClaim {display(claim)} was not created for {self._kind} {name} ({why})"
        )

    def reservation(self, claim: Mapping[str, Any], pod: Object) -> Object | None:
        return reservation(claim, pod, groups=self._get_group is not None)

    def consumer(self, claim: Mapping[str, Any], pod: Object) -> Object:
        """A claim that the pod's group names, too, is reserved for the group; otherwise for the pod.

        Raises ClaimNotUsable if there is no group of the name.
        """
        metadata = pod["metadata"]
        group = self._group(pod)
        if group is not None and self._is_shared(claim, pod, group):
            api_group, resource = POD_GROUPS
            about = group["metadata"]
            return {"apiGroup": api_group, "resource": resource, "name": about["name"], "uid": about["uid"]}
        return {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}

    def _group(self, pod: Object) -> Object | None:
        name = pod_group_of(pod)
        if self._get_group is None or not name:
            return None
        group = self._get_group(pod["metadata"].get("namespace", ""), name)
        if group is None:
            raise ClaimNotUsable(f'podgroup.scheduling.k8s.io "{name}" not found')
        return group

    @staticmethod
    def _is_shared(claim: Mapping[str, Any], pod: Object, group: Object) -> bool:
        """Group and pod must have the same claim under the same name."""
        keys = ("name", "resourceClaimName", "resourceClaimTemplateName")
        of_group = [
            tuple(entry.get(key) for key in keys)
            for entry in (group.get("spec") or {}).get("resourceClaims") or ()
        ]
        generated = {
            status["name"]: status.get("resourceClaimName")
            for status in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
        }
        for entry in pod["spec"].get("resourceClaims") or ():
            name = entry.get("resourceClaimName") or generated.get(entry["name"])
            if name == claim["metadata"]["name"] and tuple(entry.get(key) for key in keys) in of_group:
                return True
        return False


class PodClaims:
    def __init__(
        self,
        features: DynamicResourcesFeatures,
        claims: ClaimTracker,
        classes: DeviceClasses,
        users: ClaimUsers,
    ) -> None:
        self._features = features
        self._claims = claims
        self._classes = classes
        self._users = users

    def of(self, pod: Object) -> list[Object]:
        """Raises ClaimNotUsable for a claim that is missing, being deleted, or made for another pod."""
        namespace = pod["metadata"].get("namespace", "")
        found = []
        for name, must_be_owned in claim_names(pod):
            claim = self._claims.get(namespace, name)
            if claim is None:
                raise ClaimNotUsable(f'could not find ResourceClaim "{namespace}/{name}"')
            if claim["metadata"].get("deletionTimestamp"):
                raise ClaimNotUsable(f'resourceclaim "{name}" is being deleted')
            if must_be_owned:
                self._users.check_owner(claim, pod)
            found.append(claim)
        return found

    def to_schedule(self, pod: Object) -> list[PodClaim]:
        """The result is for one attempt; raises ClaimNotUsable."""
        return [PodClaim(claim, self._users.consumer(claim, pod)) for claim in self.of(pod)]

    def usable(self, claim: Object) -> Status:
        if self._features.refuses_controllers and claim["spec"].get("controller"):
            return unresolvable("resourceclaim depends on disabled DRAControlPlaneController feature")
        if (claim.get("status") or {}).get("deallocationRequested"):
            return unresolvable("resourceclaim must be reallocated")
        if allocation(claim) is not None:
            return SUCCESS  # in use or not: the API server limits the number of users
        if self._claims.is_pending(claim["metadata"]["uid"]):
            return unresolvable(f"resource claim {display(claim)} is in the process of being allocated")
        for status in self._judged_requests(claim):
            if not status.is_success:
                return status
        return SUCCESS

    def _judged_requests(self, claim: Object) -> Iterator[Status]:
        for request in (claim["spec"].get("devices") or {}).get("requests") or ():
            name, alternatives = request["name"], request.get("firstAvailable") or ()
            where = f"resource claim {display(claim)}, request {name}"
            if request.get("exactly") or not self._features.knows_alternatives:
                yield self._judged_class(name, request.get("exactly") or {})
            elif not alternatives:
                yield unresolvable(f"{where}: unknown request type")
            elif not self._features.prioritized_list:
                yield unresolvable(
                    f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled"
                )
            else:
                yield from (
                    self._judged_class(f"{name}/{alternative['name']}", alternative)
                    for alternative in alternatives
                )

    def _judged_class(self, request: str, part: Object) -> Status:
        name = part.get("deviceClassName")
        if not name:
            return failed(f"request {request}: unsupported request type")
        if self._classes.get(name) is None:
            return unresolvable(f"request {request}: device class {name} does not exist")
        return SUCCESS

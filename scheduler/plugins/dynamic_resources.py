"""DynamicResources: a pod's resource claims, and the extended resources that DRA drivers back.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources, 1.32 … 1.36.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from apimachinery.clock import Clock, Entropy
from apimachinery.node_selectors import selector_matches
from scheduler.allocator.allocator import Allocator
from scheduler.allocator.errors import AllocationError, NodeAllocationError, SearchTimeout
from scheduler.allocator.requests import ClaimPlan
from scheduler.allocator.rules import AllocatorRules
from scheduler.allocator.slice_index import SliceIndex
from scheduler.claim_tracker import ClaimTracker
from scheduler.claim_writing import ClaimWriter
from scheduler.device_classes import DeviceClasses
from scheduler.extended_resources import ExtendedResources
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.events import EventHint
from scheduler.framework.interfaces import PostFilterResult, PreFilterResult
from scheduler.framework.status import SKIP, SUCCESS, Status, failed, unresolvable, unschedulable
from scheduler.metrics import Metrics
from scheduler.nodes import NodeInfo
from scheduler.plugins import dynamic_hints
from scheduler.plugins.dynamic_binding import FAILURES, ClaimBinder
from scheduler.plugins.dynamic_special import SpecialClaims
from scheduler.plugins.dynamic_state import NodeChoice, PodClaim, PodState, SpecialPlan
from scheduler.pods import PodInfo
from scheduler.resource_claims import (
    ClaimNotUsable,
    allocation,
    can_be_reserved,
    claim_names,
    display,
    is_for_pod,
    is_reserved_for,
)
from scheduler.rules import SchedulerRules

NAME = "DynamicResources"

Object = dict[str, Any]

_CANNOT_ALLOCATE = unresolvable("cannot allocate all claims").of(NAME)


def _never() -> bool:
    return False


class DynamicResources:
    name = NAME

    def __init__(
        self,
        rules: SchedulerRules,
        allocator_rules: AllocatorRules,
        claims: ClaimTracker,
        classes: DeviceClasses,
        slices: SliceIndex,
        extended: ExtendedResources | None,
        writer: ClaimWriter,
        clock: Clock,
        entropy: Entropy,
        metrics: Metrics,
    ) -> None:
        self._claims = claims
        self._clock = clock
        self._seconds = rules.filter_timeout_seconds
        self._classes = classes
        self._special = SpecialClaims(rules, claims, extended, entropy) if extended is not None else None
        self._binder = ClaimBinder(claims, writer, entropy, metrics)
        self._allocator = Allocator(allocator_rules, classes, slices, claims.allocated, entropy.uid)

    def events_to_register(self) -> Sequence[EventHint]:
        return dynamic_hints.hints(self.pod_claims)

    # -- which claims

    def pod_claims(self, pod: Object) -> list[Object]:
        """The pod's claims, as its spec and status name them; raises ClaimNotUsable."""
        namespace = pod["metadata"].get("namespace", "")
        found = []
        for name, must_be_owned in claim_names(pod):
            claim = self._claims.get(namespace, name)
            if claim is None:
                raise ClaimNotUsable(f'could not find ResourceClaim "{namespace}/{name}"')
            if claim["metadata"].get("deletionTimestamp"):
                raise ClaimNotUsable(f'resourceclaim "{name}" is being deleted')
            if must_be_owned and not is_for_pod(claim, pod):
                owner = f"{namespace}/{pod['metadata']['name']}"
                raise ClaimNotUsable(
                    f"ResourceClaim {display(claim)} was not created for pod {owner} (pod is not owner)"
                )
            found.append(claim)
        return found

    def pre_enqueue(self, pod: PodInfo) -> Status:
        if not pod.spec.get("resourceClaims"):
            return SUCCESS
        try:
            self.pod_claims(pod.pod)
        except ClaimNotUsable as error:
            return unresolvable(str(error))
        return SUCCESS

    # -- which nodes

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        try:
            claims = [PodClaim(claim) for claim in self.pod_claims(pod.pod)]
        except ClaimNotUsable as error:
            return PreFilterResult(unresolvable(str(error)))
        special = self._special.of_pod(pod) if self._special is not None else None
        if not claims and special is None:
            return PreFilterResult(SKIP)
        for each in claims:
            status = self._usable(each.claim, pod)
            if not status.is_success:
                return PreFilterResult(status)
        own = PodState(claims, special, self._allocator, [])
        own.plans = self._allocator.plan([each.claim for each in own.to_allocate])
        own.pinned = [
            (index, selector)
            for index, each in enumerate(claims)
            if (selector := each.node_selector) is not None
        ]
        state.write(NAME, own)
        return PreFilterResult()

    def _usable(self, claim: Object, pod: PodInfo) -> Status:
        """Whether a claim can be used or allocated at all."""
        if allocation(claim) is not None:
            free = can_be_reserved(claim) or is_reserved_for(claim, pod.uid)
            return SUCCESS if free else unresolvable("resourceclaim in use")
        if self._claims.is_pending(claim["metadata"]["uid"]):
            return unresolvable(f"resource claim {display(claim)} is in the process of being allocated")
        for request in (claim["spec"].get("devices") or {}).get("requests") or ():
            for part in (
                [request["exactly"]] if request.get("exactly") else request.get("firstAvailable") or []
            ):
                name = part.get("deviceClassName")
                if not name:
                    return unresolvable(f"request {request['name']}: unsupported request type")
                if self._classes.get(name) is None:
                    return unresolvable(f"request {request['name']}: device class {name} does not exist")
        return SUCCESS

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        own: PodState = state.read(NAME)
        special = None
        if self._special is not None and own.special is not None:
            found = self._special.on_node(own, own.special, pod, node)
            if isinstance(found, Status):
                return found
            special = found
        if own.pinned and self._is_elsewhere(own, node):
            return unresolvable("resourceclaim not available on the node")
        plans = own.plans if special is None else [*own.plans, special.plan]
        return self._choose(own, plans, special, node)

    @staticmethod
    def _is_elsewhere(own: PodState, node: NodeInfo) -> bool:
        """Whether a claim is allocated where the node cannot use it."""
        elsewhere = [
            index for index, selector in own.pinned if not selector_matches(selector, node.labels, node.name)
        ]
        own.unavailable.update(elsewhere)
        return bool(elsewhere)

    def _choose(
        self, own: PodState, plans: Sequence[ClaimPlan], special: SpecialPlan | None, node: NodeInfo
    ) -> Status:
        if not plans:
            own.choices[node.name] = NodeChoice(None, special)
            return SUCCESS
        try:
            found = own.allocator.find(node, plans, self._timer)
        except SearchTimeout:
            return unresolvable("timed out trying to allocate devices")
        except NodeAllocationError as error:
            return unresolvable(str(error))
        except AllocationError as error:
            return failed(error)
        if found is None:
            return _CANNOT_ALLOCATE
        own.choices[node.name] = NodeChoice(found, special)
        return SUCCESS

    def _timer(self) -> Callable[[], bool]:
        if self._seconds is None:
            return _never
        end = self._clock.monotonic() + self._seconds
        return lambda: self._clock.monotonic() >= end

    async def post_filter(
        self,
        state: CycleState,
        pod: PodInfo,
        rejected: Mapping[str, Status],
        nodes: Sequence[NodeInfo],
    ) -> PostFilterResult:
        own: PodState | None = state.read(NAME)
        if own is None:
            return PostFilterResult(unschedulable("no new claims to deallocate"))
        try:
            return PostFilterResult(await self._binder.free_one(own, pod))
        except FAILURES as error:
            return PostFilterResult(failed(error))

    # -- taking and writing

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        own: PodState | None = state.read(NAME)
        choice = own.choices.get(node) if own is not None else None
        if own is None or choice is None or choice.found is None:
            return SUCCESS
        try:
            results = choice.found.results()
        except AllocationError as error:
            return failed(error)
        for each, result in zip(own.to_allocate, results, strict=False):
            each.result = result
            self._claims.add_pending(each.uid, result)
        if choice.special is not None and own.special is not None:
            own.special.result = results[-1]
            own.special.claim = choice.special.claim
            own.special.pending_uid = own.special.claim["metadata"]["uid"]
            own.special.mappings = choice.special.requests.mappings
            self._claims.add_pending(own.special.pending_uid, results[-1])
        return SUCCESS

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        own: PodState | None = state.read(NAME)
        if own is None:
            return SUCCESS
        try:
            await self._binder.bind(own, pod)
        except FAILURES as error:
            return failed(error)
        return SUCCESS

    async def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        own: PodState | None = state.read(NAME)
        if own is not None:
            await self._binder.undo(own, pod)

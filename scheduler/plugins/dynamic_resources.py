"""DynamicResources: a pod's resource claims, and the extended resources that DRA drivers back.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources, 1.32 … 1.36.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from apimachinery.client.rest import CONNECTION_ERRORS
from apimachinery.clock import Entropy
from apimachinery.errors import StatusError
from scheduler import extended_claims
from scheduler.allocator.allocator import Allocator
from scheduler.allocator.errors import AllocationError, NodeAllocationError
from scheduler.allocator.pools import SliceIndex
from scheduler.allocator.requests import ClaimPlan
from scheduler.allocator.rules import AllocatorRules
from scheduler.claim_tracker import ClaimTracker
from scheduler.claim_writing import ClaimError, ClaimWriter
from scheduler.device_classes import DeviceClasses
from scheduler.extended_resources import ExtendedResources, is_extended_resource
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.events import EventHint
from scheduler.framework.interfaces import PostFilterResult, PreFilterResult
from scheduler.framework.status import SKIP, SUCCESS, Status, failed, unresolvable, unschedulable
from scheduler.metrics import Metrics
from scheduler.node_selectors import selector_matches
from scheduler.nodes import NodeInfo
from scheduler.plugins import dynamic_hints
from scheduler.plugins.dynamic_state import NodeChoice, PodClaim, PodState, SpecialClaim, SpecialPlan
from scheduler.pods import PodInfo
from scheduler.resource_claims import (
    ClaimNotUsable,
    allocation,
    can_be_reserved,
    claim_names,
    display,
    is_for_pod,
    is_reserved_for,
    reserved_for,
)
from scheduler.rules import SchedulerRules

NAME = "DynamicResources"

Object = dict[str, Any]

log = logging.getLogger(__name__)

_FAILURES = (StatusError, ClaimError, *CONNECTION_ERRORS)


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
        entropy: Entropy,
        metrics: Metrics,
    ) -> None:
        self._claims = claims
        self._classes = classes
        self._extended = extended
        self._writer = writer
        self._entropy = entropy
        self._metrics = metrics if rules.claim_metric else None
        self._requests = (
            extended_claims.with_reuse if rules.reuse_by_init_containers else extended_claims.per_container
        )
        self._allocator = Allocator(allocator_rules, classes, slices, claims.devices_in_use)

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
        special = self._special_claim(pod)
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

    def _special_claim(self, pod: PodInfo) -> SpecialClaim | None:
        if self._extended is None:
            return None
        resources = tuple(
            sorted(name for name, asked in pod.requests.items() if asked and is_extended_resource(name))
        )
        if not any(self._extended.class_for(name) is not None for name in resources):
            return None
        existing = self._claims.special_claim(pod.pod)
        if existing is not None:
            return SpecialClaim(existing, exists=True, resources=resources)
        claim = extended_claims.new_claim(pod, self._entropy.uid())
        return SpecialClaim(claim, exists=False, resources=resources)

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
        special = self._special_on(own, pod, node) if own.special is not None else None
        if isinstance(special, Status):
            return special
        elsewhere = [
            index for index, selector in own.pinned if not selector_matches(selector, node.labels, node.name)
        ]
        if elsewhere:
            own.unavailable.update(elsewhere)
            return unresolvable("resourceclaim not available on the node")
        plans = own.plans if special is None else [*own.plans, special.plan]
        return self._choose(own, plans, special, node)

    def _choose(
        self, own: PodState, plans: Sequence[ClaimPlan], special: SpecialPlan | None, node: NodeInfo
    ) -> Status:
        if not plans:
            own.choices[node.name] = NodeChoice(None, special)
            return SUCCESS
        try:
            found = own.allocator.find(node, plans)
        except NodeAllocationError as error:
            return unresolvable(str(error))
        except AllocationError as error:
            return failed(error)
        if found is None:
            return _CANNOT_ALLOCATE
        own.choices[node.name] = NodeChoice(found, special)
        return SUCCESS

    def _special_on(self, own: PodState, pod: PodInfo, node: NodeInfo) -> SpecialPlan | Status | None:
        """The special claim for a node; None if device plugins have all that is asked for."""
        special, extended = own.special, self._extended
        if special is None or extended is None:
            return None
        if special.exists:
            return unresolvable("cannot schedule extended resource claim")
        backed = []
        for resource in special.resources:
            if extended.class_for(resource) is None:
                if resource not in node.extended_resources:
                    return unresolvable("cannot fit resource")
            elif node.allocatable.get(resource, 0) == 0:
                backed.append(resource)
        if not backed:
            return None
        resources = tuple(backed)
        if resources not in own.special_plans:
            own.special_plans[resources] = self._plan_special(own, special, pod, resources, extended)
        return own.special_plans[resources]

    def _plan_special(
        self,
        own: PodState,
        special: SpecialClaim,
        pod: PodInfo,
        resources: tuple[str, ...],
        extended: ExtendedResources,
    ) -> SpecialPlan:
        requests = self._requests(pod.spec, resources, extended.class_for)
        claim = {**special.claim, "spec": {"devices": {"requests": [*requests.requests]}}}
        return SpecialPlan(claim, requests, own.allocator.plan([claim])[0])

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
            return PostFilterResult(await self._free_one(own, pod))
        except _FAILURES as error:
            return PostFilterResult(failed(error))

    async def _free_one(self, own: PodState, pod: PodInfo) -> Status:
        """Give up one claim that keeps the pod from every node."""
        if own.special is not None and own.special.exists:
            await self._writer.delete(own.special.claim)
            return unschedulable("deletion of ResourceClaim completed")
        candidates = sorted(own.unavailable)
        while candidates:
            claim = own.claims[candidates.pop(int(self._entropy.random() * len(candidates)))].claim
            if all(each.get("uid") == pod.uid for each in reserved_for(claim)):
                self._claims.assume(await self._writer.deallocate(claim))
                return unschedulable("deallocation of ResourceClaim completed")
        return unschedulable("still not schedulable")

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
            for each in own.claims:
                if not is_reserved_for(each.claim, pod.uid):
                    await self._bind(each, pod)
            if own.special is not None and own.special.result is not None:
                await self._bind_special(own.special, pod)
        except _FAILURES as error:
            return failed(error)
        return SUCCESS

    async def _bind(self, each: PodClaim, pod: PodInfo) -> None:
        def seen(claim: Object) -> None:
            each.claim = claim
            self._claims.assume(claim)

        try:
            seen(await self._writer.bind(each.claim, each.result, pod, seen))
        finally:
            self._claims.remove_pending(each.uid)

    async def _bind_special(self, special: SpecialClaim, pod: PodInfo) -> None:
        def seen(claim: Object) -> None:
            special.claim, special.exists = claim, True
            self._claims.assume(claim)

        try:
            seen(await self._create(special.claim))
            seen(await self._writer.bind(special.claim, special.result, pod, seen))
        finally:
            self._claims.remove_pending(special.pending_uid)
        await self._writer.announce(pod, special.claim, special.mappings)

    async def _create(self, claim: Object) -> Object:
        status = "failure"
        try:
            created = await self._writer.create(claim)
            status = "success"
        except StatusError as error:
            text = f"create claim for extended resources {display(claim)}: {error.message}"
            raise StatusError(error.code, error.reason, text, error.details) from error
        finally:
            if self._metrics is not None:
                self._metrics.claim_creates.labels(status=status).inc()
        return created

    async def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        own: PodState | None = state.read(NAME)
        if own is None:
            return
        for each in own.claims:
            self._claims.remove_pending(each.uid)
            if each.is_held_by(pod.uid):
                await self._unreserve(each, pod)
        if own.special is not None:
            self._claims.remove_pending(own.special.pending_uid)
            if own.special.exists:
                await self._delete(own.special)

    async def _unreserve(self, each: PodClaim, pod: PodInfo) -> None:
        try:
            each.claim = await self._writer.unreserve(each.claim, pod)
            self._claims.assume(each.claim)
        except _FAILURES as error:
            log.error("unreserve claim %s: %s", display(each.claim), error)

    async def _delete(self, special: SpecialClaim) -> None:
        try:
            await self._writer.delete(special.claim)
            self._claims.forget(special.claim)
        except _FAILURES as error:
            # The next attempt finds the claim by its owner and deletes it then.
            log.error("delete claim %s: %s", display(special.claim), error)


_CANNOT_ALLOCATE = unresolvable("cannot allocate all claims")

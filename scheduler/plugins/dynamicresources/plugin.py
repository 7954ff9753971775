"""DynamicResources: a pod's resource claims, and the extended resources that DRA drivers back; with its
queueing hints and the score of devices: the earlier an alternative, the better.

Sources: k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources, computeScore, 1.35 … 1.37;
k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources, 1.32 … 1.37.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from kubeskew.apimachinery.claim_users import is_for_pod
from kubeskew.apimachinery.objects import Object, controller_of
from kubeskew.scheduler.allocator.claims import (
    ClaimNotUsable,
    allocation,
    claim_names,
    display,
    is_extended_resource_claim,
)
from kubeskew.scheduler.features import DynamicResourcesFeatures
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource, Hint, Topics
from kubeskew.scheduler.framework.interfaces import (
    MAX_NODE_SCORE,
    CycleState,
    PostFilterResult,
    PreFilterResult,
    ScoreError,
)
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, failed, unresolvable, unschedulable
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.plugins.dynamicresources.binding import ClaimBinder, PodsOfGroup
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.claim_writer import FAILURES, ClaimWriter
from kubeskew.scheduler.plugins.dynamicresources.decisions import ClaimDecisions
from kubeskew.scheduler.plugins.dynamicresources.driver_allocation import (
    DriverAllocation,
    ForeignContextError,
)
from kubeskew.scheduler.plugins.dynamicresources.pod_claims import ClaimUsers, NodeChoice, PodState
from kubeskew.scheduler.plugins.dynamicresources.simulation import ClaimSimulation, Simulate
from kubeskew.scheduler.plugins.dynamicresources.taint_rules import DeviceClasses

PodClaims = Callable[[Object], Sequence[Object]]
_MOST_ALTERNATIVES = 8  # FirstAvailableDeviceRequestMaxSize


def queueing_hints(
    pod_claims: PodClaims, features: DynamicResourcesFeatures, *, with_hints: bool
) -> Sequence[EventHint]:
    """`pod_claims` returns the claims of a pod or raises ClaimNotUsable; `with_hints` is the gate
    SchedulerQueueingHints."""
    changed = Action.ADD | Action.UPDATE
    node = Action.ADD | Action.UPDATE_NODE_LABEL
    if features.allocatable_requeues:
        node |= Action.UPDATE_NODE_ALLOCATABLE
    if not with_hints:  # nodes that come with a taint are then not reported as new
        node |= Action.UPDATE_NODE_TAINT
    claim = changed | Action.DELETE if features.claim_deletion_requeues else changed
    found = [
        EventHint(ClusterEvent(EventResource.NODE, node)),
        EventHint(
            ClusterEvent(EventResource.UNSCHEDULED_POD, Action.UPDATE_POD_GENERATED_CLAIM),
            _after_pod_change(pod_claims),
        ),
        EventHint(
            ClusterEvent(EventResource.RESOURCE_CLAIM, claim),
            _after_claim_change(pod_claims),
            Topics(_topics_of_pod, _topics_of_claim),
        ),
        EventHint(ClusterEvent(EventResource.DEVICE_CLASS, changed)),
    ]
    if features.slices_requeue:
        found.append(EventHint(ClusterEvent(EventResource.RESOURCE_SLICE, changed)))
    return found


def _after_pod_change(pod_claims: PodClaims) -> Hint:
    def hint(pod: Object, old: Object | None, new: Object | None) -> bool:  # noqa: ARG001 - protocol
        if new is None or new["metadata"].get("uid") != pod["metadata"].get("uid"):
            return False
        try:
            pod_claims(new)
        except ClaimNotUsable:
            return False
        return True

    return hint


def _after_claim_change(pod_claims: PodClaims) -> Hint:
    def hint(pod: Object, old: Object | None, new: Object | None) -> bool:
        changed = new or old
        if _frees_devices(old, new):
            return _are_usable(pod, pod_claims)
        if changed is not None and is_extended_resource_claim(changed) and is_for_pod(changed, pod):
            return new is None  # the leftover is gone
        if new is None or not _uses(pod, new, pod_claims):
            return False
        return old is None or old.get("status") != new.get("status")

    return hint


def _are_usable(pod: Object, pod_claims: PodClaims) -> bool:
    try:
        pod_claims(pod)
    except ClaimNotUsable:
        return False
    return True


def _frees_devices(old: Object | None, new: Object | None) -> bool:
    return old is not None and allocation(old) is not None and (new is None or allocation(new) is None)


def _topics_of_claim(old: Object | None, new: Object | None) -> list[Hashable] | None:
    """Topics are the claim and its owner; None if the change frees devices, which concerns every pod."""
    changed = new or old
    if changed is None or _frees_devices(old, new):
        return None
    topics: list[Hashable] = [("claim", display(changed))]
    owner = controller_of(changed)
    if owner is not None:
        topics.append(("pod", owner.get("uid")))
    return topics


def _topics_of_pod(pod: Object) -> list[Hashable]:
    metadata, namespace = pod["metadata"], pod["metadata"].get("namespace", "")
    topics: list[Hashable] = [("pod", metadata.get("uid"))]
    try:
        topics += [("claim", f"{namespace}/{name}") for name, _ in claim_names(pod)]
    except ClaimNotUsable:
        return topics  # no claim can help before the pod itself changes
    return topics


def _uses(pod: Object, claim: Object, pod_claims: PodClaims) -> bool:
    try:
        used = pod_claims(pod)
    except ClaimNotUsable:
        return False
    return any(used_claim["metadata"].get("uid") == claim["metadata"].get("uid") for used_claim in used)


def has_alternatives(own: PodState) -> bool:
    return any(
        request.get("firstAvailable")
        for claim in own.claims
        for request in ((claim.claim.get("spec") or {}).get("devices") or {}).get("requests") or ()
    )


def has_allocated(own: PodState) -> bool:
    return any(allocation(claim.claim) is not None for claim in own.claims)


def refuse(own: PodState, choice: NodeChoice | None) -> None:
    """Raises ScoreError if this attempt allocates claims on a node, and others were allocated before.

    Upstream goes through all claims of the pod, and takes for each the next allocation of this attempt
    (139016). A node that was chosen for an equal pod before has no `choice`.
    """
    found = choice.found if choice is not None else None
    count = len(found.solution) if found is not None else len(own.plans)
    if count:
        raise ScoreError(f"number of allocations {count} is smaller than number of claims")


def score(own: PodState, choice: NodeChoice) -> int:
    """Adds up the scores of all requests with alternatives, of claims allocated before and now."""
    total = sum(
        _of_claim(claim.claim, _chosen_before(allocation(claim.claim)))
        for claim in own.claims
        if allocation(claim.claim) is not None
    )
    if choice.found is not None:
        for plan, solution in zip(choice.found.claims, choice.found.solution, strict=True):
            total += _of_claim(plan.claim, {chosen.request.name for chosen in solution.choices})
    return total


def _chosen_before(result: Mapping[str, Any] | None) -> set[str]:
    return {allocated["request"] for allocated in ((result or {}).get("devices") or {}).get("results") or ()}


def _of_claim(claim: Mapping[str, Any], chosen: set[str]) -> int:
    return sum(
        _MOST_ALTERNATIVES - place
        for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ()
        for place, alternative in enumerate(request.get("firstAvailable") or ())
        if f"{request['name']}/{alternative['name']}" in chosen
    )


NAME = "DynamicResources"

_SIMULATION = f"{NAME}/simulation"  # key of the cycle state
_REACHED = f"{NAME}/reached"  # … says that no earlier plugin ended PreFilter


class ClaimServices(NamedTuple):
    """All profiles of a scheduler share these."""

    claims: ClaimTracker
    classes: DeviceClasses
    users: ClaimUsers
    writer: ClaimWriter
    pods_of_group: PodsOfGroup


class DynamicResources:
    name = NAME

    def __init__(
        self,
        features: DynamicResourcesFeatures,
        services: ClaimServices,
        decisions: ClaimDecisions,
        simulate: Simulate,
        drivers: DriverAllocation | None,
        handle: Handle,
    ) -> None:
        """`drivers` is None where no controllers of drivers allocate claims."""
        self._drivers = drivers
        self._features = features
        self._decisions = decisions
        self._simulate = simulate
        self._node = handle.cache.node
        self._hinted = handle.features.queueing_hints
        self._pod_claims = decisions.pod_claims
        self._log = decisions.log
        self._wait = decisions.wait
        self._binder = ClaimBinder(
            services.claims,
            services.writer,
            services.users,
            services.pods_of_group,
            handle.clock,
            handle.entropy,
            handle.metrics.dynamic,
            forgets_refused=handle.features.forgets_refused_claim,
        )

    def events_to_register(self) -> Sequence[EventHint]:
        hints = queueing_hints(self._pod_claims.of, self._features, with_hints=self._hinted)
        return hints if self._drivers is None else [*hints, self._drivers.context_hint]

    def pre_enqueue(self, pod: PodInfo) -> Status:
        if not pod.spec.get("resourceClaims"):
            return SUCCESS
        try:
            self._pod_claims.of(pod.pod)
        except ClaimNotUsable as error:
            return unresolvable(str(error))
        return SUCCESS

    # -- which nodes

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        simulation: ClaimSimulation | None = state.read(_SIMULATION)
        state.write(_REACHED, True)
        own = self._decisions.pre_filter(pod) if simulation is None else simulation.pre_filter(pod)
        if isinstance(own, PreFilterResult):
            if simulation is None and not (own.status.is_success or own.status.is_skip):
                self._log.rejected("PreFilter", own.status, pod=pod.key)
            return own
        if self._drivers is not None and simulation is None:
            try:
                own.driven = self._drivers.of_pod(pod, [claim.claim for claim in own.claims])
            except ForeignContextError as error:
                return PreFilterResult(failed(error))
        state.write(NAME, own)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        own: PodState = state.read(NAME)
        simulation: ClaimSimulation | None = state.read(_SIMULATION)
        if simulation is not None:
            return simulation.filter(own, pod, node)
        status = SUCCESS
        if self._drivers is not None and own.driven is not None:
            status = self._drivers.filter(own.driven, node)
            if not status.is_success:
                self._log.rejected("Filter", status, pod=pod.key, node=node.name)
        return self._decisions.filter(own, pod, node) if status.is_success else status

    # -- simulating for the cluster autoscaler

    def start_simulation(self, state: CycleState) -> Status:
        state.write(_SIMULATION, self._simulate())
        return SUCCESS

    def simulate_bind_pod(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        simulation: ClaimSimulation = state.read(_SIMULATION)
        return simulation.bind(pod, node)

    def simulate_evict_pod(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        simulation: ClaimSimulation = state.read(_SIMULATION)
        return simulation.evict(pod)

    async def post_filter(
        self,
        state: CycleState,
        pod: PodInfo,
        rejected: Mapping[str, Status],
        nodes: Sequence[NodeInfo],
    ) -> PostFilterResult:
        own: PodState | None = state.read(NAME)
        if own is None:
            quiet = self._features.quiet_without_claims and not pod.spec.get("resourceClaims")
            if not quiet and state.read(_REACHED) is None:
                return PostFilterResult(failed("not found"))  # the state, which PreFilter would have written
            return PostFilterResult(_idle("" if quiet else self._features.idle_reason))
        try:
            freed = await self._free_one(own, pod)
        except FAILURES as error:
            return PostFilterResult(failed(error))
        return PostFilterResult(freed if freed is not None else _idle(self._features.stuck_reason))

    async def _free_one(self, own: PodState, pod: PodInfo) -> Status | None:
        if self._drivers is not None and own.driven is not None:
            freed = await self._drivers.free_one(own.driven, pod)
            if freed is not None:
                return freed
        return await self._binder.free_one(own, pod)

    # -- which node

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status:
        """Skips scoring if all nodes are alike: no claim has alternatives.

        A release that fails to score a pod does so without alternatives, too.
        """
        own: PodState | None = state.read(NAME)
        if own is not None and own.driven is not None and self._drivers is not None:
            self._drivers.pre_score(own.driven, [node.name for node in nodes])
        if own is not None and self._features.scores_all_claims and has_allocated(own):
            return SUCCESS
        if own is None or not self._features.scores_alternatives:
            return SKIP
        return SUCCESS if own.claims and has_alternatives(own) else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        own: PodState = state.read(NAME)
        choice = own.choices.get(node.name)
        if self._features.scores_all_claims and has_allocated(own):
            refuse(own, choice)
        return 0 if choice is None else score(own, choice)

    def normalize(self, scores: dict[str, int]) -> None:
        best = max(scores.values(), default=0)
        for name, value in scores.items():
            scores[name] = value * MAX_NODE_SCORE // best if best else 0

    # -- taking and writing

    async def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        own: PodState | None = state.read(NAME)
        where = self._node(node)
        if own is None or where is None:
            return SUCCESS
        status = self._decisions.reserve(own, pod, where)
        if not status.is_success or own.driven is None or self._drivers is None:
            return status
        return await self._drivers.reserve(own.driven, pod, node, handled=len(own.to_allocate))

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        own: PodState | None = state.read(NAME)
        if own is None:
            return SUCCESS
        try:
            if own.driven is not None and self._drivers is not None:
                status = await self._drivers.pre_bind(own.driven, pod)
                if not status.is_success:
                    return status
            await self._binder.bind(own, pod)
            await self._wait.wait(own, pod, node)
        except FAILURES as error:
            status = failed(error)
            self._log.rejected("PreBind", status, pod=pod.key, node=node)
            return status
        return SUCCESS

    async def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        own: PodState | None = state.read(NAME)
        if own is None:
            return
        if own.driven is not None and self._drivers is not None:
            await self._drivers.unreserve(own.driven, pod)
        await self._binder.undo(own, pod)

    async def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        own: PodState | None = state.read(NAME)
        if own is not None and own.driven is not None and self._drivers is not None:
            await self._drivers.post_bind(pod)


def _idle(reason: str) -> Status:
    return unschedulable(reason) if reason else unschedulable()

"""Decides where a pod's claims can be had, and which devices they get there: PreFilter, Filter and Reserve.
Rejections and failures are logged with upstream's texts and keys.

The claims and slices are those of the informers, or those of a simulation's snapshot.

Sources: statusUnschedulable, statusError and Filter in pkg/scheduler/framework/plugins/dynamicresources/
dynamicresources.go, 1.32 … 1.36; the loggers' names: pkg/scheduler/framework/runtime/framework.go.
"""

import logging
from collections.abc import Callable, Iterable, Set
from math import inf
from typing import NamedTuple

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.runtime import Value, level_of, log_values
from kubeskew.apimachinery.selectors.nodes import selector_matches
from kubeskew.scheduler.allocator.allocated_state import DeviceID
from kubeskew.scheduler.allocator.allocator import Allocator
from kubeskew.scheduler.allocator.claims import (
    AllocationError,
    ClaimNotUsable,
    NodeAllocationError,
    SearchTimeout,
)
from kubeskew.scheduler.cooperative import give_way
from kubeskew.scheduler.features import DynamicResourcesFeatures
from kubeskew.scheduler.framework.interfaces import PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.node_selector_errors import selector_fault
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.profile import PodSignatures
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, failed, unresolvable
from kubeskew.scheduler.plugins.dynamicresources.binding import DeviceWait
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.extended_resources import ExtendedResourceClaims
from kubeskew.scheduler.plugins.dynamicresources.pod_claims import (
    ExtendedResourcePlan,
    NodeChoice,
    PodClaims,
    PodState,
)

log = logging.getLogger(__name__)

_VERBOSITY = 5
# Filters are asked with the pods counted that are nominated to the node, whether there are any or not.
_POINTS = {"Filter": "FilterWithNominatedPods.Filter"}
_CANNOT_ALLOCATE = unresolvable("cannot allocate all claims").of("DynamicResources")

_Known = tuple[object, DeviceID | None]  # the allocator's situation then, and the result
_NOT_HERE = unresolvable("resourceclaim not available on the node").of("DynamicResources")


class RejectionLog:
    """Logs at level 5. `named` says whether loggers name the extension point (ContextualLogging)."""

    def __init__(self, *, named: bool) -> None:
        self._named = named

    @property
    def enabled(self) -> bool:
        """A line is composed only if it is going to be written."""
        return log.isEnabledFor(level_of(_VERBOSITY))

    def rejected(self, point: str, status: Status, **values: Value) -> None:
        """Messages differ between rejections and failures; klog writes an error before all values."""
        if status.is_rejected:
            log_values(
                log, _VERBOSITY, "pod unschedulable", **self._name(point), **values, reason=status.message
            )
        else:
            error = {"err": status.message, **self._name(point), **values}
            log_values(log, _VERBOSITY, "dynamic resource plugin failed", **error)

    def elsewhere(self, **values: Value) -> None:
        """Logs that a claim was allocated for other nodes."""
        log_values(
            log, _VERBOSITY, "allocation's node selector does not match", **self._name("Filter"), **values
        )

    def _name(self, point: str) -> dict[str, Value]:
        return {"logger": f"{_POINTS.get(point, point)}.DynamicResources"} if self._named else {}


def keys_of(claims: Iterable[Object]) -> list[str]:
    return [f"{claim['metadata']['namespace']}/{claim['metadata']['name']}" for claim in claims]


class DeviceChooser:
    """Runs the allocator of an attempt, and remembers its answers.

    A node that fits a pod with one plain device fits every pod of its signature, until the device is taken or
    something changes. NodeInfo.memo keeps that; only Reserve runs the allocator again.
    """

    def __init__(self, features: DynamicResourcesFeatures, taken: Set[DeviceID], clock: Clock) -> None:
        """`taken` is a live view of the devices in use."""
        self._features = features
        self._taken = taken
        self._clock = clock
        self._signatures = PodSignatures()

    def signature(self, own: PodState) -> object | None:
        """None for pods that want anything but one plain device."""
        usual = own.usual_extended_plan
        plans = own.plans if usual is None else [usual.plan]
        single = plans[0].single if len(plans) == 1 else None
        if single is None or single.capacity or own.pinned or own.lost or (own.extended_claim and own.claims):
            return None
        return self._signatures.of(
            (own.extended_claim.resources if own.extended_claim else (), single.resume_key)
        )

    def known(self, own: PodState, node: NodeInfo) -> Status | None:
        """Status of the node for the last pod of the signature, or None if that no longer holds."""
        known: _Known | None = node.memo.get(own.signature)
        if known is None or known[0] is not own.allocation_epoch:
            return None
        if known[1] is None:
            return _CANNOT_ALLOCATE
        return None if known[1] in self._taken else SUCCESS

    def choose(self, own: PodState, extended_plan: ExtendedResourcePlan | None, node: NodeInfo) -> Status:
        status = self._search(own, extended_plan, node)
        if own.signature is not None and extended_plan is own.usual_extended_plan:
            self._remember(own, node, status)
        return status

    @staticmethod
    def _remember(own: PodState, node: NodeInfo, status: Status) -> None:
        if status is _CANNOT_ALLOCATE:
            node.memo[own.signature] = (own.allocation_epoch, None)
        choice = own.choices.get(node.name)
        if status is SUCCESS and choice is not None and choice.found is not None:
            (device,) = (chosen.device for chosen in choice.found.solution[0].choices)
            if device.plain:
                node.memo[own.signature] = (own.allocation_epoch, device.id)

    def chosen(self, own: PodState, extended_plan: ExtendedResourcePlan | None, node: NodeInfo) -> Status:
        """For Reserve: chooses as `choose` did, and keeps the choice in the state."""
        return SUCCESS if node.name in own.choices else self._search(own, extended_plan, node)

    def _search(self, own: PodState, extended_plan: ExtendedResourcePlan | None, node: NodeInfo) -> Status:
        plans = own.plans if extended_plan is None else [*own.plans, extended_plan.plan]
        found = None
        if plans:
            try:
                found = own.allocator.find(node, plans, self._timer)
            except SearchTimeout:
                return self._timed_out(node.name)
            except NodeAllocationError as error:
                return unresolvable(str(error))
            except AllocationError as error:
                return failed(error)
            if found is None:
                return _CANNOT_ALLOCATE
        own.choices[node.name] = NodeChoice(found, extended_plan)
        return SUCCESS

    def _timed_out(self, node: str) -> Status:
        text = "timed out trying to allocate devices"
        return failed(f"node {node}: {text}") if self._features.timeout_is_error else unresolvable(text)

    def _timer(self) -> Callable[[], bool]:
        seconds = self._features.filter_seconds
        end = inf if seconds is None else self._clock.monotonic() + seconds

        def is_over() -> bool:
            now = self._clock.monotonic()
            give_way(now)
            return now >= end

        return is_over


class ClaimDecisions(NamedTuple):
    """`extended_claims` is None with DRAExtendedResource off. `gather` makes the allocator of one attempt,
    for releases that gather the devices in use for each; None is for those that never overlook one."""

    claims: ClaimTracker
    pod_claims: PodClaims
    allocator: Allocator
    gather: Callable[[], Allocator] | None
    chooser: DeviceChooser
    extended_claims: ExtendedResourceClaims | None
    wait: DeviceWait
    log: RejectionLog

    # -- PreFilter

    def pre_filter(self, pod: PodInfo) -> PodState | PreFilterResult:
        """The state that Filter needs; or the result, if the pod fits nowhere or has no claims."""
        try:
            claims = self.pod_claims.to_schedule(pod.pod)
        except ClaimNotUsable as error:
            return PreFilterResult(unresolvable(str(error)))
        extended_claim = self.extended_claims.of_pod(pod) if self.extended_claims is not None else None
        if not claims and extended_claim is None:
            return PreFilterResult(SKIP)
        for claim in claims:
            status = self.pod_claims.usable(claim.claim)
            if not status.is_success:
                return PreFilterResult(status)
        own = PodState(claims, extended_claim, self.allocator, [])
        own.plans = self.allocator.plan([claim.claim for claim in own.to_allocate])
        own.pinned = [
            (index, selector)
            for index, claim in enumerate(claims)
            if (selector := claim.node_selector) is not None and not claim.is_driven
        ]
        faults = [fault for _, selector in own.pinned if (fault := selector_fault(selector))]
        if faults:
            return PreFilterResult(failed(faults[0]))
        own.lost = self.wait.lost(claims)
        if self.extended_claims is not None and extended_claim is not None and not extended_claim.exists:
            own.usual_extended_plan = self.extended_claims.usual(own, extended_claim, pod)
        own.signature = self.chooser.signature(own)
        own.allocation_epoch = self.allocator.allocation_epoch()
        if self.gather is not None and (own.plans or extended_claim is not None):
            own.allocator, own.signature = self.gather(), None  # nodes keep no answers of this attempt
        return own

    # -- Filter

    def filter(self, own: PodState, pod: PodInfo, node: NodeInfo) -> Status:
        status = self.chooser.known(own, node)
        if status is None:
            extended_plan = self._on_node(own, pod, node)
            if isinstance(extended_plan, Status):
                if self.log.enabled:
                    self._log_extended(own, extended_plan, pod, node)
                return extended_plan
            status = self.chooser.choose(own, extended_plan, node)
        if not status.is_success:
            if self.log.enabled:
                claims = [claim.claim for claim in own.to_allocate]
                if own.extended_claim is not None:
                    claims.append(own.extended_claim.claim)
                keys = keys_of(claims)
                self.log.rejected("Filter", status, pod=pod.key, node=node.name, resourceclaims=keys)
        elif own.pinned or own.lost:
            return self._check_allocated(own, pod, node)
        return status

    def _log_extended(self, own: PodState, status: Status, pod: PodInfo, node: NodeInfo) -> None:
        extended_claim = own.extended_claim
        if extended_claim is None or self.extended_claims is None:
            return
        if extended_claim.exists:
            (claim,) = keys_of([extended_claim.claim])
            self.log.rejected("Filter", status, pod=pod.key, node=node.name, claim=claim)
        else:
            resource = self.extended_claims.unknown_to(extended_claim, node) or ""
            self.log.rejected("Filter", status, pod=pod.key, node=node.name, resource=resource)

    def _on_node(self, own: PodState, pod: PodInfo, node: NodeInfo) -> ExtendedResourcePlan | Status | None:
        if self.extended_claims is None or own.extended_claim is None:
            return None
        return self.extended_claims.on_node(own, own.extended_claim, pod, node)

    def _check_allocated(self, own: PodState, pod: PodInfo, node: NodeInfo) -> Status:
        """Notes those allocated claims that cannot be used on the node, for PostFilter."""
        unavailable = {
            index for index, selector in own.pinned if not selector_matches(selector, node.labels, node.name)
        }
        if self.log.enabled:
            for key in keys_of(own.claims[index].claim for index in sorted(unavailable)):
                self.log.elsewhere(pod=pod.key, node=node.name, resourceclaim=key)
        unavailable.update(own.lost)
        if not unavailable:
            return SUCCESS
        own.unavailable |= unavailable
        own.choices.pop(node.name, None)
        self.log.rejected("Filter", _NOT_HERE, pod=pod.key)
        return _NOT_HERE

    # -- Reserve

    def reserve(self, own: PodState, pod: PodInfo, where: NodeInfo) -> Status:
        extended_plan = self._on_node(own, pod, where)
        if isinstance(extended_plan, Status):
            return extended_plan
        status = self.chooser.chosen(own, extended_plan, where)
        if not status.is_success:
            return status
        choice = own.choices[where.name]
        if choice.found is None:
            return SUCCESS
        try:
            results = choice.found.results()
        except AllocationError as error:
            return failed(error)
        for claim, result in zip(own.to_allocate, results, strict=False):
            claim.result = result
            self.claims.add_pending(claim.uid, result)
        if choice.extended_plan is not None and own.extended_claim is not None:
            own.extended_claim.result = results[-1]
            own.extended_claim.claim = choice.extended_plan.claim
            own.extended_claim.pending_uid = own.extended_claim.claim["metadata"]["uid"]
            own.extended_claim.mappings = choice.extended_plan.requests.mappings
            self.claims.add_pending(own.extended_claim.pending_uid, results[-1])
        return SUCCESS

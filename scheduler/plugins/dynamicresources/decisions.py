"""Decides where a pod's claims can be had, and which devices they get there: PreFilter, Filter and Reserve.

The claims and slices are those of the informers, or those of a simulation's snapshot.
"""

from collections.abc import Callable
from typing import NamedTuple

from kubeskew.apimachinery.selectors.node_selectors import selector_matches
from kubeskew.scheduler.allocator.allocator import Allocator
from kubeskew.scheduler.allocator.claims import ClaimNotUsable
from kubeskew.scheduler.allocator.errors import AllocationError
from kubeskew.scheduler.framework.interfaces import PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.node_selector_errors import selector_fault
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, failed, unresolvable
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.device_readiness import DeviceWait
from kubeskew.scheduler.plugins.dynamicresources.extended_resources import ExtendedResourceClaims
from kubeskew.scheduler.plugins.dynamicresources.node_allocation import DeviceChooser
from kubeskew.scheduler.plugins.dynamicresources.pod_claims import PodClaims
from kubeskew.scheduler.plugins.dynamicresources.rejection_log import RejectionLog, keys_of
from kubeskew.scheduler.plugins.dynamicresources.state import ExtendedResourcePlan, PodState

_NOT_HERE = unresolvable("resourceclaim not available on the node").of("DynamicResources")


class ClaimDecisions(NamedTuple):
    """Holds what decisions are made from.

    `extended_claims` is None with DRAExtendedResource off. `gather` makes the allocator of one attempt, for
    releases that gather the devices in use for each; None is for those that never overlook one.
    """

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
        """Returns what Filter needs of the pod; or the result, if it fits nowhere or has no claims."""
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
        """Returns whether the node has devices for the claims, and the claims that have some are usable."""
        status = self.chooser.known(own, node)
        if status is None:
            extended_plan = self._on_node(own, pod, node)
            if isinstance(extended_plan, Status):
                if self.log.heard:
                    self._log_extended(own, extended_plan, pod, node)
                return extended_plan
            status = self.chooser.choose(own, extended_plan, node)
        if not status.is_success:
            if self.log.heard:
                claims = [claim.claim for claim in own.to_allocate]
                if own.extended_claim is not None:
                    claims.append(own.extended_claim.claim)
                keys = keys_of(claims)
                self.log.rejected("Filter", status, pod=pod.key, node=node.name, resourceclaims=keys)
        elif own.pinned or own.lost:
            return self._check_allocated(own, pod, node)
        return status

    def _log_extended(self, own: PodState, status: Status, pod: PodInfo, node: NodeInfo) -> None:
        """Logs why the extended resources alone keep a pod from a node."""
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
        """Returns whether the claims that are allocated can be used on the node."""
        unavailable = {
            index for index, selector in own.pinned if not selector_matches(selector, node.labels, node.name)
        }
        if self.log.heard:
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
        """Chooses devices on the node; they are in use from then on."""
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

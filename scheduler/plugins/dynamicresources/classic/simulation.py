"""Keeps a simulation's claims in classic releases: those that the scheduler allocates can be simulated.

Source: KEP-4381 as drafted (Simulation with CA).
"""

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable
from kubeskew.scheduler.framework.interfaces import PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SUCCESS, Status, failed, unresolvable
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.classic.decisions import ClassicDecisions
from kubeskew.scheduler.plugins.dynamicresources.classic.pod_claims import is_reserved_for
from kubeskew.scheduler.plugins.dynamicresources.classic.state import DriverClaim, DriverClaims
from kubeskew.scheduler.plugins.dynamicresources.scheduler_allocation import (
    AllocationError,
    SimulatedAllocation,
)
from kubeskew.scheduler.plugins.dynamicresources.simulated_claims import SimulatedClaims, driver_allocates

_ALLOCATED = ("allocation", "driverName")


class ClassicSimulation(SimulatedClaims):
    """Simulates the claims of one scheduler of a classic release."""

    def __init__(
        self, decisions: ClassicDecisions, claims: ClaimTracker, allocated: SimulatedAllocation | None
    ) -> None:
        """`decisions` are made from the copy `claims`; `allocated` is None where drivers alone allocate."""
        super().__init__(claims)
        self._decisions = decisions
        self._allocated = allocated

    def pre_filter(self, pod: PodInfo) -> DriverClaims | PreFilterResult:
        """Decides as the plugin's PreFilter, and refuses claims that only a driver's controller allocates."""
        own = self._decisions.pre_filter(pod)
        if isinstance(own, DriverClaims) and own.pending:
            return PreFilterResult(unresolvable(driver_allocates(own.pending[0].claim)))
        return own

    def filter(self, own: DriverClaims, node: NodeInfo) -> Status:
        if self._detect(node) and own.resources is not None and self._allocated is not None:
            own.resources = self._allocated.resources()
        return self._decisions.filter(own, node)

    def bind(self, pod: PodInfo, node: NodeInfo) -> Status:
        """Allocates the pod's claims on the node and reserves them for it."""
        own = self.pre_filter(pod)
        if isinstance(own, PreFilterResult):
            return SUCCESS if own.status.is_skip else own.status
        status = self.filter(own, node)
        if not status.is_success:
            return status
        try:
            _allocate(own, node.name)
        except ClaimNotUsable as error:
            return unresolvable(str(error))
        except AllocationError as error:
            return failed(error)
        for claim in own.claims:
            self._bind_claim(claim, pod)
        return SUCCESS

    def _bind_claim(self, own: DriverClaim, pod: PodInfo) -> None:
        claim = own.claim
        status = dict(claim.get("status") or {})
        if own.result is not None and own.handled is not None:
            status |= {"allocation": own.result, "driverName": own.handled.driver}
        if not is_reserved_for(pod.pod, claim):
            consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
            status["reservedFor"] = [*reserved_for(claim), consumer]
        self.write({**claim, "status": status})

    def evict(self, pod: PodInfo) -> Status:
        """Removes the pod's reservations, and what claims had that nobody else uses, unless they keep it."""
        try:
            named = self._decisions.pod_claims.of(pod.pod)
        except ClaimNotUsable:
            named = []  # a pod whose claim is gone holds none
        for _, claim in named:
            if is_reserved_for(pod.pod, claim):
                self.write({**claim, "status": _released(claim, pod)})
        return SUCCESS

    def _detect(self, node: NodeInfo) -> bool:
        """Copies slices for a node that is fictional and not known yet; returns whether there may be some."""
        origin, allocated = self.origin_of_new(node), self._allocated
        if not origin or allocated is None:
            return False
        allocated.add_node(node.name, origin)
        self.undo_by(lambda: allocated.remove_node(node.name))
        return True


def _allocate(own: DriverClaims, node: str) -> None:
    if own.resources is not None:
        handled = own.handled
        results = own.resources.allocate(node, [claim.handled for claim in handled])
        for claim, result in zip(handled, results, strict=True):
            claim.result = result


def _released(claim: Object, pod: PodInfo) -> Object:
    """Returns the claim's status without the pod; claims that are allocated at once keep what they have."""
    users = [user for user in reserved_for(claim) if user.get("uid") != pod.uid]
    status = {**claim["status"], "reservedFor": users}
    if users or claim["spec"].get("allocationMode") == "Immediate":
        return status
    return {name: value for name, value in status.items() if name not in _ALLOCATED}

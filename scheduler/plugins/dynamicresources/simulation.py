"""Keeps a simulation's claims and slices: a copy in which pods are bound and evicted without any server.

Sources: KEP-4381 as drafted (Simulation with CA); for devices simulator/dynamicresources of the cluster
autoscaler, 1.35, which copies the slices of a node for each node that is made from it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kubeskew.apimachinery.claim_users import is_pod_group, reserved_for
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import ClaimNotUsable, allocation
from kubeskew.scheduler.allocator.pools import SliceIndex
from kubeskew.scheduler.framework.interfaces import PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.simulation import copied_name
from kubeskew.scheduler.framework.status import SUCCESS, Status, unresolvable
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import SimulatedClaims, driver_allocates
from kubeskew.scheduler.plugins.dynamicresources.decisions import ClaimDecisions
from kubeskew.scheduler.plugins.dynamicresources.pod_claims import ClaimUsers, PodClaim, PodState


class ClaimSimulation(SimulatedClaims):
    def __init__(self, decisions: ClaimDecisions, slices: SliceIndex, users: ClaimUsers) -> None:
        """`decisions` are made from copies of claims and slices; `slices` is that copy."""
        super().__init__(decisions.claims)
        self._decisions = decisions
        self._slices = slices
        self._users = users
        self._by_node = slices.by_node()

    # -- decisions

    def pre_filter(self, pod: PodInfo) -> PodState | PreFilterResult:
        """Decides as the plugin's PreFilter, and refuses claims that only a driver's controller allocates."""
        own = self._decisions.pre_filter(pod)
        if isinstance(own, PreFilterResult):
            return own
        for index, claim in enumerate(own.claims):
            if not claim.is_driven:
                continue
            if allocation(claim.claim) is None:
                return PreFilterResult(unresolvable(driver_allocates(claim.claim)))
            own.signature = None  # nodes keep no answer about claims that are not the allocator's
            if claim.node_selector is not None:
                own.pinned.append((index, claim.node_selector))
        return own

    def filter(self, own: PodState, pod: PodInfo, node: NodeInfo) -> Status:
        self._detect(node)
        return self._decisions.filter(own, pod, node)

    def bind(self, pod: PodInfo, node: NodeInfo) -> Status:
        own = self.pre_filter(pod)
        if isinstance(own, PreFilterResult):
            return SUCCESS if own.status.is_skip else own.status
        status = self.filter(own, pod, node)
        if status.is_success:
            status = self._decisions.reserve(own, pod, node)
        if status.is_success:
            for claim in own.claims:
                self._bind_claim(claim, pod)
            self._bind_extended_claim(own, pod)
        return status

    def evict(self, pod: PodInfo) -> Status:
        """Removes the pod's reservations, and the allocations of claims that no other pod uses."""
        try:
            claims = self._decisions.pod_claims.of(pod.pod)
        except ClaimNotUsable:
            claims = []  # a pod whose claim is gone holds none
        for claim in claims:
            self._release(claim, pod)
        extended_claim = self._claims.extended_resource_claim(pod.pod)
        if extended_claim is not None:
            self.remove(extended_claim)
        return SUCCESS

    # -- claims

    def _bind_claim(self, own: PodClaim, pod: PodInfo) -> None:
        claim = own.claim
        status = dict(claim.get("status") or {})
        if own.result is not None:
            status["allocation"] = own.result
        if self._users.reservation(claim, pod.pod) is None:
            status["reservedFor"] = [*reserved_for(claim), own.consumer]
        self.write({**claim, "status": status})
        if own.result is not None:
            self._claims.remove_pending(own.uid)

    def _bind_extended_claim(self, own: PodState, pod: PodInfo) -> None:
        made = own.extended_claim
        if made is None or made.result is None:
            return
        metadata = {**made.claim["metadata"], "name": f"{made.claim['metadata']['generateName']}{pod.uid}"}
        consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
        status = {"allocation": made.result, "reservedFor": [consumer]}
        self.write({**made.claim, "metadata": metadata, "status": status})
        self._claims.remove_pending(made.pending_uid)

    def _release(self, claim: Object, pod: PodInfo) -> None:
        reservation = self._users.reservation(claim, pod.pod)
        if reservation is None or is_pod_group(reservation):
            return
        rest = [user for user in reserved_for(claim) if user.get("uid") != reservation.get("uid")]
        status = {**claim["status"], "reservedFor": rest}
        if not rest:
            status = without_allocation(status)
        self.write({**claim, "status": status})

    # -- slices

    def _detect(self, node: NodeInfo) -> None:
        """Copies slices for a node that is fictional and not known yet; pools get names of their own."""
        origin = self.origin_of_new(node)
        for slice_ in self._by_node.get(origin, ()) if origin else ():
            self._copy(slice_.name, slice_.spec, node.name)

    def _copy(self, name: str, spec: Mapping[str, Any], node: str) -> None:
        pool = {**spec["pool"], "name": copied_name(spec["pool"]["name"], node)}
        copy = {
            "metadata": {"name": copied_name(name, node)},
            "spec": {**spec, "nodeName": node, "pool": pool},
        }
        self._slices.set_slice(copy)
        self.undo_by(lambda: self._slices.remove_slice(copy))


Simulate = Callable[[], ClaimSimulation]


def without_allocation(status: Object) -> Object:
    return {name: value for name, value in status.items() if name not in ("allocation", "devices")}

"""Writes claims of cdi.k8s.io for the scheduler: nodes for drivers, reservations, requests to reallocate.

Source: KEP-3063 as drafted, sections Pre-score, Reserve, Unreserve and Post-filter.
"""

import logging
from collections.abc import Iterable

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.claims import display
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.drafted.claims import (
    REALLOCATE,
    DraftedClaim,
    DraftedClaims,
)

log = logging.getLogger(__name__)


class DraftedWriter:
    """Every write is of the claim as it was read: of several schedulers that write, one succeeds.

    Methods raise StatusError or a connection error. Answers are told to the tracker at once.
    """

    def __init__(self, client: APIClient, ref: Ref, claims: ClaimTracker) -> None:
        self._client = client
        self._ref = ref
        self._claims = claims

    async def select(self, own: DraftedClaims, node: str) -> None:
        """Tell the drivers of pending claims for which node to allocate, and which others fit.

        A node that was selected before and still fits stays: a driver may be at work for it, and a pod
        whose nodes are all alike would otherwise wake itself by selecting another one each time.
        """
        fitting = own.nodes or [node]
        selected = {claim.selected_node for claim in own.pending}
        if len(selected) == 1 and selected <= set(fitting):
            node = min(selected)
        for claim in own.pending:
            await self._tell(claim, node, fitting)
        own.told = True

    async def inform(self, own: DraftedClaims) -> None:
        """Tell the drivers which nodes fit, without selecting another one. What fails is logged."""
        if own.told or own.nodes is None:
            return
        try:
            for claim in own.pending:
                await self._tell(claim, claim.selected_node, own.nodes)
        except (StatusError, *CONNECTION_ERRORS) as error:
            log.error("update potential nodes: %s", error)

    async def _tell(self, claim: DraftedClaim, node: str, fitting: Iterable[str]) -> None:
        if claim.selected_node == node and set(claim.potential_nodes) == set(fitting):
            return
        told: Object = {"potentialNodes": sorted(fitting)}
        if node:
            told["selectedNode"] = node
        scheduling = {**(claim.status.get("scheduling") or {}), "scheduler": told}
        await self._update(claim, {**claim.status, "scheduling": scheduling})

    async def reserve(self, own: DraftedClaims, pod: PodInfo) -> None:
        """Add the pod to the users of its claims."""
        user = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
        for claim in own.claims:
            if not claim.is_reserved_for(pod.uid):
                users = [*reserved_for(claim.claim), user]
                await self._update(claim, {**claim.status, "reservedFor": users})

    async def unreserve(self, own: DraftedClaims, pod: PodInfo) -> None:
        """Take the pod from the users of its claims. What fails is logged: the next attempt finds it."""
        for claim in own.claims:
            if not claim.is_reserved_for(pod.uid):
                continue
            users = [user for user in reserved_for(claim.claim) if user.get("uid") != pod.uid]
            try:
                await self._update(claim, _with_users(claim.status, users))
            except (StatusError, *CONNECTION_ERRORS) as error:
                log.error("unreserve claim %s: %s", display(claim.claim), error)

    async def request_reallocation(self, claim: DraftedClaim) -> None:
        """Have the driver free the claim; no node is selected for it any more."""
        status = {**_with_users(claim.status, []), "phase": REALLOCATE}
        scheduling = {
            key: value for key, value in (status.get("scheduling") or {}).items() if key == "driver"
        }
        if "scheduling" in status:
            status["scheduling"] = scheduling
        await self._update(claim, status)

    async def _update(self, claim: DraftedClaim, status: Object) -> None:
        answer = await self._client.update(self._ref, {**claim.claim, "status": status}, "status")
        answer["metadata"].pop("managedFields", None)
        claim.claim = answer
        self._claims.assume(answer)


def _with_users(status: Object, users: list[Object]) -> Object:
    left = {key: value for key, value in status.items() if key != "reservedFor"}
    return {**left, "reservedFor": users} if users else left

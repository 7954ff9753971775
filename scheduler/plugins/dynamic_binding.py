"""The API calls of DynamicResources, with the books kept in step: after each answer the tracker knows what
the server has, and whatever happens nothing stays in flight."""

import logging
from typing import Any

from apimachinery.client.rest import CONNECTION_ERRORS
from apimachinery.clock import Entropy
from apimachinery.errors import StatusError
from scheduler.claim_tracker import ClaimTracker
from scheduler.claim_writing import ClaimError, ClaimWriter
from scheduler.framework.status import Status, unschedulable
from scheduler.metrics import Metrics
from scheduler.plugins.dynamic_state import PodClaim, PodState, SpecialClaim
from scheduler.pods import PodInfo
from scheduler.resource_claims import display, is_reserved_for, reserved_for

Object = dict[str, Any]

log = logging.getLogger(__name__)

FAILURES = (StatusError, ClaimError, *CONNECTION_ERRORS)


class ClaimBinder:
    """Methods raise one of FAILURES, except `undo`, which logs."""

    def __init__(self, claims: ClaimTracker, writer: ClaimWriter, entropy: Entropy, metrics: Metrics) -> None:
        self._claims = claims
        self._writer = writer
        self._entropy = entropy
        self._metrics = metrics

    async def bind(self, own: PodState, pod: PodInfo) -> None:
        """Write the allocations and reservations of all claims of the pod."""
        for each in own.claims:
            if not is_reserved_for(each.claim, pod.uid):
                await self._bind(each, pod)
        if own.special is not None and own.special.result is not None:
            await self._bind_special(own.special, pod)

    async def _bind(self, each: PodClaim, pod: PodInfo) -> None:
        def seen(claim: Object) -> None:
            each.claim = claim
            self._claims.assume(claim)

        try:
            seen(await self._writer.bind(each.claim, each.result, pod, seen))
        finally:
            self._land(each)

    def _land(self, each: PodClaim) -> None:
        """The pod's own allocation of the claim is not in flight any more; another pod's may be."""
        if each.result is not None:
            self._claims.remove_pending(each.uid)
            each.result = None

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
            self._metrics.count_claim(status)
        return created

    async def undo(self, own: PodState, pod: PodInfo) -> None:
        """Take back reservations (allocations stay) and delete the special claim. May be repeated."""
        for each in own.claims:
            self._land(each)
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
        except FAILURES as error:
            log.error("unreserve claim %s: %s", display(each.claim), error)

    async def _delete(self, special: SpecialClaim) -> None:
        try:
            await self._writer.delete(special.claim)
            self._claims.forget(special.claim)
            special.exists = False
        except FAILURES as error:
            # The next attempt finds the claim by its owner and deletes it then.
            log.error("delete claim %s: %s", display(special.claim), error)

    async def free_one(self, own: PodState, pod: PodInfo) -> Status:
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

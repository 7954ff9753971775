"""Makes the API calls of DynamicResources, keeps the claim tracker up to date, and waits in PreBind for
devices with binding conditions (KEP-5007).

The tracker knows after each answer what the server has; no allocation stays in flight, not even after errors.
"""

import logging
from collections.abc import Callable, Iterator

from kubeskew.apimachinery.claim_users import is_pod_group, pod_group_of, reserved_for
from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.binding_conditions import (
    BindingError,
    BindingTimeout,
    Readiness,
    conditional,
)
from kubeskew.scheduler.allocator.claims import allocation, display
from kubeskew.scheduler.features import DynamicResourcesFeatures
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import Status, unschedulable
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.metrics import DynamicMetrics
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.claim_writer import FAILURES, ClaimError, ClaimWriter
from kubeskew.scheduler.plugins.dynamicresources.pod_claims import (
    ClaimUsers,
    ExtendedResourceClaim,
    PodClaim,
    PodState,
)

_POLL_SECONDS = 5.0
log = logging.getLogger(__name__)

# How long, and how often, a claim for extended resources is looked for that the informer has to bring
# (extendeddynamicresources.go, waitForExtendedClaimInAssumeCache, 1.36).
_INFORMER_SECONDS, _LOOK_SECONDS = 120, 1.0

PodsOfGroup = Callable[[str, str], int]  # namespace, name → how many of its pods are on a node


class DeviceWait:
    def __init__(
        self, features: DynamicResourcesFeatures, claims: ClaimTracker, handle: Handle, profile: str
    ) -> None:
        self._features = features
        self._claims = claims
        self._handle = handle
        self._profile = profile
        self._readiness = Readiness(features)

    def lost(self, claims: list[PodClaim]) -> list[int]:
        """Places in the list of those allocated claims whose devices failed, or took too long."""
        if not self._features.binding_conditions:
            return []
        now = self._handle.clock.now()
        return [
            index
            for index, claim in enumerate(claims)
            if next(conditional(claim.claim), None) is not None and self._readiness.is_lost(claim.claim, now)
        ]

    async def wait(self, own: PodState, pod: PodInfo, node: str) -> None:
        """Raises BindingError, or ClaimError for a claim that is gone."""
        if not self._features.binding_conditions:
            return
        if all(next(conditional(claim.claim), None) is None for claim in _bound(own)):
            return
        self._handle.recorder.event(
            pod.pod,
            "Normal",
            "BindingConditionsPending",
            f"waiting for binding conditions for device on node {node}",
            action="Scheduling",
        )
        began, status = self._handle.clock.monotonic(), "error"
        try:
            await self._poll(own, began)
            status = "success"
        except BindingError as error:
            status = "timeout" if isinstance(error, BindingTimeout) else "failure"
            raise
        finally:
            seconds = self._handle.clock.monotonic() - began
            claims = [claim.claim for claim in _bound(own)]
            self._handle.metrics.dynamic.waited(claims, self._profile, status, seconds)

    async def _poll(self, own: PodState, began: float) -> None:
        clock = self._handle.clock
        end = began + self._features.binding_seconds
        while not self._is_ready(own):
            left = end - clock.monotonic()
            await clock.sleep(max(0.0, min(_POLL_SECONDS, left)))
            if left <= _POLL_SECONDS:
                raise self._readiness.expired()

    def _is_ready(self, own: PodState) -> bool:
        """The informer's state of the claims decides, not the server's; raises as `wait` does."""
        for bound in _bound(own):
            metadata = bound.claim["metadata"]
            claim = self._claims.get(metadata.get("namespace", ""), metadata["name"])
            if claim is None:
                raise ClaimError(f'could not find ResourceClaim "{display(bound.claim)}"')
            bound.claim = claim
            if not self._readiness.is_ready(claim):
                if self._readiness.is_overdue(claim, self._handle.clock.now()):
                    raise self._readiness.overdue(claim)
                return False
        return True


def _bound(own: PodState) -> Iterator[PodClaim | ExtendedResourceClaim]:
    yield from own.claims
    if own.extended_claim is not None and own.extended_claim.exists:
        yield own.extended_claim


class ClaimBinder:
    """Binds the claims of pods. Methods raise one of FAILURES, except `undo`, which logs."""

    def __init__(
        self,
        claims: ClaimTracker,
        writer: ClaimWriter,
        users: ClaimUsers,
        pods_of_group: PodsOfGroup,
        clock: Clock,
        entropy: Entropy,
        metrics: DynamicMetrics,
        *,
        forgets_refused: bool,
    ) -> None:
        """`forgets_refused`: the error of a creation says nothing of the claim."""
        self._forgets_refused = forgets_refused
        self._claims = claims
        self._users = users
        self._pods_of_group = pods_of_group
        self._writer = writer
        self._clock = clock
        self._entropy = entropy
        self._metrics = metrics

    async def bind(self, own: PodState, pod: PodInfo) -> None:
        for claim in own.claims:
            if self._users.reservation(claim.claim, pod.pod) is None:
                await self._bind(claim)
        if own.extended_claim is not None and own.extended_claim.result is not None:
            await self._bind_extended_claim(own.extended_claim, pod)

    async def _bind(self, claim: PodClaim) -> None:
        def seen(written: Object) -> None:
            claim.claim = written
            self._claims.assume(written)

        try:
            seen(await self._writer.bind(claim.claim, claim.result, claim.consumer, seen))
        finally:
            self._land(claim)

    def _land(self, claim: PodClaim) -> None:
        """Removes the pod's allocation of the claim from those in flight; another pod's may be there."""
        if claim.result is not None:
            self._claims.remove_pending(claim.uid)
            claim.result = None

    async def _bind_extended_claim(self, extended_claim: ExtendedResourceClaim, pod: PodInfo) -> None:
        def seen(claim: Object) -> None:
            extended_claim.claim, extended_claim.exists = claim, True

        try:
            seen(await self._create(extended_claim.claim))
            seen(
                await self._writer.bind(
                    extended_claim.claim, extended_claim.result, _pod_as_consumer(pod), seen
                )
            )
            await self._informed(extended_claim.claim)
        finally:
            self._claims.remove_pending(extended_claim.pending_uid)
        await self._writer.announce(pod, extended_claim.claim, extended_claim.mappings)

    async def _informed(self, claim: Object) -> None:
        """Waits until the informer has brought a new claim, or has not for long; until then its devices are
        kept as in flight."""
        end = self._clock.monotonic() + _INFORMER_SECONDS
        while not self._claims.assume(claim):
            if self._clock.monotonic() >= end:
                log.info("Claim not stored in assume cache after retries: %s", display(claim))
                return
            await self._clock.sleep(_LOOK_SECONDS)

    async def _create(self, claim: Object) -> Object:
        status = "failure"
        try:
            created = await self._writer.create(claim)
            status = "success"
        except StatusError as error:
            # As upstream, the claim has no name here any more; in 1.34 it is the one that did not come back.
            which = "" if self._forgets_refused else f"{claim['metadata']['namespace']}/"
            text = f"create claim for extended resources {which}: {error.message}"
            raise StatusError(error.code, error.reason, text, error.details) from error
        finally:
            self._metrics.claim_created(status)
        return created

    async def undo(self, own: PodState, pod: PodInfo) -> None:
        """Removes reservations (allocations stay) and deletes the extended-resource claim.

        Can be repeated.
        """
        for claim in own.claims:
            self._land(claim)
            if allocation(claim.claim) is not None:
                await self._unreserve(claim, pod)
        if own.extended_claim is not None:
            self._claims.remove_pending(own.extended_claim.pending_uid)
            if own.extended_claim.exists:
                await self._delete(own.extended_claim)

    async def _unreserve(self, claim: PodClaim, pod: PodInfo) -> None:
        reservation = self._users.reservation(claim.claim, pod.pod)
        if reservation is None or (is_pod_group(reservation) and self._group_has_pods(pod, more_than=1)):
            return
        try:
            claim.claim = await self._writer.unreserve(claim.claim, reservation["uid"])
            self._claims.assume(claim.claim)
        except FAILURES as error:
            log.error("unreserve claim %s: %s", display(claim.claim), error)

    async def _delete(self, extended_claim: ExtendedResourceClaim) -> None:
        try:
            await self._writer.delete(extended_claim.claim)
            self._claims.forget(extended_claim.claim)
            extended_claim.exists = False
        except FAILURES as error:
            # The next attempt finds the claim by its owner and deletes it then.
            log.error("delete claim %s: %s", display(extended_claim.claim), error)

    def _group_has_pods(self, pod: PodInfo, *, more_than: int) -> bool:
        """Pods of the group count that have a node, also the pod itself."""
        return self._pods_of_group(pod.namespace, pod_group_of(pod.pod)) > more_than

    async def free_one(self, own: PodState, pod: PodInfo) -> Status | None:
        """Frees one claim that keeps the pod from every node; None means that there was none."""
        if own.extended_claim is not None and own.extended_claim.exists:
            await self._writer.delete(own.extended_claim.claim)
            return unschedulable("deletion of ResourceClaim completed")
        candidates = sorted(own.unavailable)
        while candidates:
            claim = own.claims[candidates.pop(int(self._entropy.random() * len(candidates)))].claim
            if self._can_be_freed(claim, pod):
                self._claims.assume(await self._writer.deallocate(claim))
                return unschedulable("deallocation of ResourceClaim completed")
        return None

    def _can_be_freed(self, claim: Object, pod: PodInfo) -> bool:
        """Only the pod itself may use the claim, or its group while no other pod of the group runs."""
        users = reserved_for(claim)
        if len(users) != 1:
            return not users
        if users[0].get("uid") == pod.uid:
            return True
        own = self._users.reservation(claim, pod.pod)
        return own is not None and not self._group_has_pods(pod, more_than=0)


def _pod_as_consumer(pod: PodInfo) -> Object:
    return {"resource": "pods", "name": pod.name, "uid": pod.uid}

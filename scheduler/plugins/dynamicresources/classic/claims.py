"""The claims of a pod in releases of classic DRA: finds them, decides whether the pod can be scheduled with
them, and writes them: reservations, and the request to give one back.

Sources: pkg/scheduler/framework/plugins/dynamicresources, 1.26 to 1.30 (podResourceClaims, PreFilter);
pkg/scheduler/framework/plugins/dynamicresources, 1.26 to 1.31.
"""

import logging
from collections.abc import Iterator
from typing import NamedTuple

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, STRATEGIC_PATCH, APIClient
from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object, controller_of
from kubeskew.scheduler.allocator.claims import ClaimNotUsable, allocation, display
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.plugins.dynamicresources.claim_tracker import ClaimTracker
from kubeskew.scheduler.plugins.dynamicresources.claim_writer import ClaimWriter, VersionConverter
from kubeskew.scheduler.plugins.dynamicresources.classic.features import ClassicFeatures
from kubeskew.scheduler.plugins.dynamicresources.classic.negotiation import DriverClaim, DriverClaims

log = logging.getLogger(__name__)


class NamedClaim(NamedTuple):
    entry: str
    claim: Object


def names(pod: Object, features: ClassicFeatures) -> Iterator[tuple[str, str, bool]]:
    """(entry, claim's name, whether it must belong to the pod) for every claim that the pod needs.

    Raises ClaimNotUsable for one that is not made yet.
    """
    metadata = pod["metadata"]
    where = f'pod "{metadata.get("namespace", "")}/{metadata["name"]}"'
    statuses = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    generated = {status["name"]: status for status in statuses}
    for entry in pod["spec"].get("resourceClaims") or ():
        source = (entry.get("source") or {}) if features.nested_source else entry
        if source.get("resourceClaimName"):
            yield entry["name"], source["resourceClaimName"], False
        elif not source.get("template" if features.inline_templates else "resourceClaimTemplateName"):
            raise ClaimNotUsable(
                f'{where}, spec.resourceClaim "{entry["name"]}": none of the supported fields are set'
            )
        elif features.fixed_names:
            yield entry["name"], f"{metadata['name']}-{entry['name']}", True
        elif entry["name"] not in generated:
            raise ClaimNotUsable(f"{where}: ResourceClaim not created yet")
        elif generated[entry["name"]].get("resourceClaimName"):  # otherwise no claim was needed
            yield entry["name"], generated[entry["name"]]["resourceClaimName"], True


def is_reserved_for(pod: Object, claim: Object) -> bool:
    uid = pod["metadata"].get("uid")
    return any(consumer.get("uid") == uid for consumer in reserved_for(claim))


def check_owner(pod: Object, claim: Object) -> None:
    """Raises ClaimNotUsable for a claim that was made for another pod."""
    metadata = pod["metadata"]
    if (controller_of(claim) or {}).get("uid") != metadata.get("uid"):
        name = f"{metadata.get('namespace', '')}/{metadata['name']}"
        text = f"ResourceClaim {display(claim)} was not created for pod {name} (pod is not owner)"
        raise ClaimNotUsable(text)


class ClassicPodClaims:
    def __init__(self, features: ClassicFeatures, claims: ClaimTracker) -> None:
        self._features = features
        self._claims = claims

    def of(self, pod: Object) -> list[NamedClaim]:
        """Raises ClaimNotUsable."""
        namespace = pod["metadata"].get("namespace", "")
        found = []
        for entry, name, owned in names(pod, self._features):
            claim = self._claims.get(namespace, name)
            if claim is None:
                raise ClaimNotUsable(self._missing(namespace, name, owned=owned))
            if claim["metadata"].get("deletionTimestamp"):
                raise ClaimNotUsable(f'resourceclaim "{name}" is being deleted')
            if owned:
                check_owner(pod, claim)
            found.append(NamedClaim(entry, claim))
        return found

    def _missing(self, namespace: str, name: str, *, owned: bool) -> str:
        if owned and self._features.fixed_names:
            return f'waiting for dynamic resource controller to create the resourceclaim "{name}"'
        if self._features.assumes:
            return f'could not find ResourceClaim "{namespace}/{name}"'
        return f'resourceclaim.{self._features.group} "{name}" not found'

    def check(self, pod: Object, claim: Object) -> None:
        """Raises ClaimNotUsable for a claim that must change first: a driver's, or one in use."""
        is_allocated = allocation(claim) is not None
        if not self._features.finalizer:
            self.check_driver(claim)
        if (claim.get("status") or {}).get("deallocationRequested"):
            raise ClaimNotUsable("resourceclaim must be reallocated")
        if is_allocated and not self._can_be_reserved(claim) and not is_reserved_for(pod, claim):
            raise ClaimNotUsable("resourceclaim in use")

    @staticmethod
    def check_driver(claim: Object) -> None:
        """Raises ClaimNotUsable for a claim that its driver is to allocate without a pod."""
        if allocation(claim) is None and claim["spec"].get("allocationMode") == "Immediate":
            raise ClaimNotUsable("unallocated immediate resourceclaim")

    def _can_be_reserved(self, claim: Object) -> bool:
        """The server alone counts the users of a shared claim."""
        if not self._features.shareable_flag:
            return True
        return not reserved_for(claim) or bool((allocation(claim) or {}).get("shareable"))


class ClassicWriter:
    """The tracker receives each write at once. Methods raise StatusError, ClaimError or a connection
    error."""

    def __init__(
        self,
        features: ClassicFeatures,
        client: APIClient,
        edge: VersionConverter,
        claims: ClaimTracker,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._binder = ClaimWriter(client, edge, clock, stamps=False, finalizer=features.finalizer)
        self._features = features
        self._client = client
        self._edge = edge
        self._ref = edge.refs.claims
        self._claims = claims
        self._entropy = entropy

    async def reserve(self, own: DriverClaims, pod: PodInfo) -> None:
        """Until 1.29 Reserve reserves what drivers allocated, without a second try."""
        consumer = _consumer(pod)
        for claim in own.claims:
            if claim.is_pending or self._is_ours(claim):
                continue
            if not is_reserved_for(pod.pod, claim.claim):
                users = [*reserved_for(claim.claim), consumer]
                await self._update(claim, {**claim.claim["status"], "reservedFor": users})

    async def bind(self, own: DriverClaims, pod: PodInfo) -> None:
        """Since 1.30 PreBind writes what the scheduler itself allocated, and all reservations."""
        for claim in own.claims:
            if not is_reserved_for(pod.pod, claim.claim):
                await self._bind(claim, pod)

    async def _bind(self, claim: DriverClaim, pod: PodInfo) -> None:
        def seen(written: Object) -> None:
            claim.claim = written
            self._claims.assume(written)

        extra_status = {} if claim.handled is None else {"driverName": claim.handled.driver}
        result, consumer, written = claim.result, _consumer(pod), False
        try:
            seen(await self._binder.bind(claim.claim, result, consumer, seen, extra_status=extra_status))
            written = True
        finally:
            self._land(claim, written=written)

    def give_up(self, own: DriverClaims) -> None:
        """Only allocations that are not written are forgotten."""
        for claim in own.claims:
            self._land(claim, written=False)

    def _land(self, claim: DriverClaim, *, written: bool) -> None:
        if claim.result is not None and claim.handler is not None:
            claim.result = None
            claim.handler.land(claim.claim, written=written)

    async def unreserve(self, own: DriverClaims, pod: PodInfo) -> None:
        """Removes the reservations for the pod; allocations stay. Failures are tried again next time."""
        for claim in own.claims:
            if claim.is_pending or not is_reserved_for(pod.pod, claim.claim):
                continue
            try:
                await self._unreserve(claim, pod)
            except (StatusError, *CONNECTION_ERRORS) as error:
                log.error("unreserve claim %s: %s", display(claim.claim), error)

    async def _unreserve(self, claim: DriverClaim, pod: PodInfo) -> None:
        if self._features.writes_in_reserve and not self._is_ours(claim):
            users = [user for user in reserved_for(claim.claim) if user.get("uid") != pod.uid]
            await self._update(claim, {**claim.claim["status"], "reservedFor": users})
            return
        metadata = claim.claim["metadata"]
        body = {
            "metadata": {"uid": metadata["uid"]},
            "status": {"reservedFor": [{"$patch": "delete", "uid": pod.uid}]},
        }
        answer = await self._client.patch(
            self._ref, metadata["name"], metadata["namespace"], body, STRATEGIC_PATCH, subresource="status"
        )
        self._learn(claim, answer)

    def freeable(self, own: DriverClaims, pod: PodInfo) -> DriverClaim | None:
        """Chooses at random among the noted claims that no other pod has."""
        indices = list(own.unavailable)
        while indices:
            claim = own.claims[indices.pop(int(self._entropy.random() * len(indices)))]
            users = reserved_for(claim.claim)
            unused = not users or (len(users) == 1 and users[0].get("uid") == pod.uid)
            if unused and not claim.is_pending:
                return claim
        return None

    def _is_ours(self, claim: DriverClaim) -> bool:
        finalizers = claim.claim["metadata"].get("finalizers") or ()
        return bool(self._features.finalizer) and self._features.finalizer in finalizers

    async def clear(self, claim: DriverClaim) -> bool:
        """Takes an allocation of the scheduler's own back; False means that a driver made it."""
        if not self._is_ours(claim):
            return False
        gone = ("reservedFor", "allocation", "driverName")
        status = {key: value for key, value in claim.claim["status"].items() if key not in gone}
        await self._update(claim, status)
        return True

    async def request_deallocation(self, claim: DriverClaim) -> None:
        status = {key: value for key, value in claim.claim["status"].items() if key != "reservedFor"}
        await self._update(claim, {**status, "deallocationRequested": True})

    async def _update(self, claim: DriverClaim, status: Object) -> None:
        changed = self._edge.outgoing(self._ref, {**claim.claim, "status": status})
        self._learn(claim, await self._client.update(self._ref, changed, "status"))

    def _learn(self, claim: DriverClaim, answer: Object) -> None:
        answer["metadata"].pop("managedFields", None)
        claim.claim = self._edge.incoming(self._ref, answer)
        self._claims.assume(claim.claim)


def _consumer(pod: PodInfo) -> Object:
    return {"resource": "pods", "name": pod.name, "uid": pod.uid}

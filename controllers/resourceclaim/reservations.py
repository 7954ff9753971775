"""The reservations of claims by users, which are pods or groups that share a claim; releases claims whose
users are done (removes reservations, deallocates, deletes), and reserves allocated claims for pods that got
their node without the scheduler.

A reservation ends only on certainty, because the scheduler may know more.

Sources: k8s.io/kubernetes/pkg/controller/resourceclaim, 1.36 and 1.37 (gate DRAWorkloadResourceClaims);
k8s.io/kubernetes/pkg/controller/resourceclaim (syncClaim), 1.26 … 1.37;
k8s.io/kubernetes/pkg/controller/resourceclaim, 1.26 … 1.36; k8s.io/kubernetes/pkg/controller/resourceclaim
(syncPod), 1.28 … 1.37.
"""

import copy
from collections.abc import Container

from kubeskew.apimachinery.claim_users import is_pod_group, pod_group_of, reservation, reserved_for
from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import PODS, Ref, dra_refs, pod_groups_ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework import pods
from kubeskew.controllers.framework.base import ControllerContext
from kubeskew.controllers.resourceclaim import claims
from kubeskew.controllers.resourceclaim.claims import ClaimError, ClaimNotCreated
from kubeskew.controllers.resourceclaim.creation import Owner
from kubeskew.controllers.resourceclaim.features import ResourceClaimFeatures

_MAX_RESERVATIONS = 256


class PodGroups:
    """`enabled` only if the gates let groups of pods have claims."""

    def __init__(self, context: ControllerContext, features: ResourceClaimFeatures) -> None:
        self.enabled = features.group_claims
        self._strict = features.checks_groups
        self.ref = pod_groups_ref(context.environment.version)
        self.informer: Informer | None = context.informer(self.ref) if features.watches_groups else None

    def owner_for(self, pod: Object, entry: Object) -> Owner | None:
        """None if the claim is the pod's own, and not that of its group.

        Raises ClaimError if that is not known, or if a gate forbids it.
        """
        name = pod_group_of(pod)
        if not name or (self.informer is None and not self._strict):
            return None
        if self.informer is None:
            raise ClaimError("GenericWorkload feature is disabled")
        group = self.informer.get(pod["metadata"]["namespace"], name)
        if group is None:
            raise ClaimError(f'podgroup.scheduling.k8s.io "{name}" not found')
        if entry not in (group["spec"].get("resourceClaims") or ()):
            return None
        if not self.enabled:
            raise ClaimError("DRAWorkloadResourceClaims feature is disabled")
        return Owner(self.ref, group)

    def consumer(self, pod: Object, entry: Object) -> Object:
        owner = self.owner_for(pod, entry)
        metadata = (owner.obj if owner is not None else pod)["metadata"]
        about = {"name": metadata["name"], "uid": metadata["uid"]}
        if owner is None:
            return {"resource": "pods", **about}
        return {"apiGroup": self.ref.group, "resource": self.ref.plural, **about}


class ReservedFor:
    """`deleted` are uids of pods and groups whose deletion was seen."""

    def __init__(
        self,
        client: APIClient,
        features: ResourceClaimFeatures,
        pods: Informer,
        groups: PodGroups,
        deleted: Container[str],
    ) -> None:
        self._client = client
        self._features = features
        self._pods = pods
        self._groups = groups
        self._deleted = deleted

    async def still_uses(self, claim: Object, consumer: Object) -> bool:
        """Until 1.35 raises ClaimError unless the reservation is a pod's."""
        namespace = claim["metadata"]["namespace"]
        if claims.is_pod_reference(consumer):
            pod = self._pods.get(namespace, consumer["name"])
            if pod is not None and self._features.releases_done and claims.is_done(pod):
                return False
            return await self._is_there(PODS, pod, namespace, consumer)
        if not self._features.pod_groups:
            raise ClaimError(f"unsupported ReservedFor entry: {_shown(consumer)}")
        if is_pod_group(consumer) and self._groups.enabled and self._groups.informer is not None:
            group = self._groups.informer.get(namespace, consumer["name"])
            return await self._is_there(self._groups.ref, group, namespace, consumer)
        return True

    async def _is_there(self, ref: Ref, known: Object | None, namespace: str, consumer: Object) -> bool:
        uid = consumer["uid"]
        if uid in self._deleted:
            return False
        if known is not None:
            return bool(known["metadata"]["uid"] == uid)
        try:
            live = await self._client.get(ref, consumer["name"], namespace)
        except StatusError as error:
            if error.code == 404:
                return False
            raise
        return bool(live["metadata"]["uid"] == uid)


def _shown(consumer: Object) -> str:
    """Formats the struct as Go's %v does."""
    return "{" + " ".join(consumer.get(name) or "" for name in ("apiGroup", "resource", "name", "uid")) + "}"


class Releaser:
    """Reconciles one claim at a time; `users` decides about its reservations."""

    def __init__(
        self,
        context: ControllerContext,
        ref: Ref,
        features: ResourceClaimFeatures,
        pods: Informer,
        users: ReservedFor,
    ) -> None:
        self._client = context.client
        self._ref = ref
        self._features = features
        self._pods = pods
        self._users = users

    async def sync(self, claim: Object) -> None:
        """Removes reservations of pods that are done; after the last one the claim is
        deallocated or deleted.
        """
        reserved = reserved_for(claim)
        valid = [consumer for consumer in reserved if await self._users.still_uses(claim, consumer)]
        protected = self._features.finalizer in (claim["metadata"].get("finalizers") or ())
        if len(valid) < len(reserved):
            await self._release(claim, valid, protected=protected)
        elif protected and not valid and self.is_over(claim):
            await self._deallocate_unused(claim)
        if not valid and self._features.releases_done:
            await self._delete_if_unused(claim)

    async def _release(self, claim: Object, valid: list[Object], *, protected: bool) -> None:
        """The last reservation takes the allocation with it, so that others can have the devices."""
        changed = copy.deepcopy(claim)
        status = changed["status"]
        status["reservedFor"] = valid
        if not valid:
            del status["reservedFor"]
            self.deallocate(changed, protected=protected)
        updated = await self._client.update(self._ref, changed, "status")
        if not (updated.get("status") or {}).get("allocation"):
            await self._unprotect(updated)

    def deallocate(self, claim: Object, *, protected: bool) -> None:
        """Applies to claims that lost their last user, not to those that never had any: drivers need not
        reserve what they allocate.
        """
        if protected:
            self.clear(claim["status"])

    def is_over(self, claim: Object) -> bool:
        """True if nobody will use the scheduler's allocation."""
        return bool(claim["metadata"].get("deletionTimestamp"))

    async def _deallocate_unused(self, claim: Object) -> None:
        if (claim.get("status") or {}).get("allocation"):
            changed = copy.deepcopy(claim)
            self.clear(changed["status"])
            claim = await self._client.update(self._ref, changed, "status")
        await self._unprotect(claim)

    def clear(self, status: Object) -> None:
        status.pop("allocation", None)

    async def _unprotect(self, claim: Object) -> None:
        finalizers = claim["metadata"].get("finalizers") or []
        if self._features.finalizer not in finalizers:
            return
        left = [finalizer for finalizer in finalizers if finalizer != self._features.finalizer]
        metadata = {**claim["metadata"], "finalizers": left}
        await self._client.update(self._ref, {**claim, "metadata": metadata})

    async def _delete_if_unused(self, claim: Object) -> None:
        """Pods that will not run any more lose their claims even if they stay."""
        owner, metadata = claims.owning_pod(claim), claim["metadata"]
        if owner is None or metadata.get("deletionTimestamp"):
            return
        pod = self._pods.get(metadata["namespace"], owner[0])
        # An unknown pod may be too new for the informer: the garbage collector decides.
        if pod is None or (pod["metadata"]["uid"] == owner[1] and not claims.is_done(pod)):
            return
        try:
            await self._client.delete(self._ref, metadata["name"], metadata["namespace"])
        except StatusError as error:
            if error.code != 404:
                raise


class BoundPods:
    """Reserves claims for pods that got their node without the scheduler."""

    def __init__(
        self,
        context: ControllerContext,
        features: ResourceClaimFeatures,
        claims: Informer,
        groups: PodGroups,
    ) -> None:
        self._client = context.client
        self._features = features
        self._claims = claims
        self._groups = groups
        self._claims_ref = dra_refs(context.environment.version).claims

    async def sync(self, pod: Object) -> None:
        """Claims are handled in the pod's order, up to the first that does not exist. Raises ClaimError."""
        for pod_claim in pod["spec"].get("resourceClaims") or ():
            try:
                name, owned = claims.claim_name(pod, pod_claim, self._features)
            except ClaimNotCreated:
                return
            if name is None:
                continue
            claim = self._claims.get(pod["metadata"]["namespace"], name)
            if claim is None:
                return
            if owned:
                claims.check_owner(pod, claim, groups=self._groups.enabled)
            if (claim.get("status") or {}).get("allocation"):
                await self._reserve(pod, pod_claim, claim)
            elif await self.requests_allocation(pod, claim):
                return

    async def requests_allocation(self, pod: Object, claim: Object) -> bool:
        """True if somebody is asked to allocate all claims of the pod: today only the scheduler allocates."""
        return False

    def can_be_reserved(self, claim: Object) -> bool:
        return len(reserved_for(claim)) < _MAX_RESERVATIONS

    def lacks_reservation(self, pod: Object) -> bool:
        if pods.is_terminating(pod) or not pod["spec"].get("nodeName"):
            return False
        for pod_claim in pod["spec"].get("resourceClaims") or ():
            try:
                name, owned = claims.claim_name(pod, pod_claim, self._features)
                claim = self._claims.get(pod["metadata"]["namespace"], name) if name else None
                if claim is None:
                    return False
                if owned:
                    claims.check_owner(pod, claim, groups=self._groups.enabled)
            except (ClaimNotCreated, ClaimError):
                return False
            if (claim.get("status") or {}).get("allocation") and self._is_to_be_reserved(pod, claim):
                return True
        return False

    def _is_to_be_reserved(self, pod: Object, claim: Object) -> bool:
        reserved = reservation(claim, pod, groups=self._groups.enabled) is not None
        return not reserved and self.can_be_reserved(claim)

    async def _reserve(self, pod: Object, pod_claim: Object, claim: Object) -> None:
        if not self._is_to_be_reserved(pod, claim):
            return
        reserved = [*reserved_for(claim), self._groups.consumer(pod, pod_claim)]
        changed = {**claim, "status": {**claim["status"], "reservedFor": reserved}}
        try:
            await self._client.update(self._claims_ref, changed, "status")
        except StatusError as error:
            raise ClaimError(f"reserve claim for pod: {error}") from error

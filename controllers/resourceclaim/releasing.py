"""Releases claims whose users are done: removes reservations, deallocates, deletes.

Behaviour of k8s.io/kubernetes/pkg/controller/resourceclaim, 1.26 … 1.36.
"""

import copy

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.resourceclaim import claims
from kubeskew.controllers.resourceclaim.features import ResourceClaimFeatures
from kubeskew.controllers.resourceclaim.users import ReservedFor


class Releaser:
    """Looks at one claim at a time. `users` says who still holds it."""

    def __init__(
        self, client: APIClient, ref: Ref, features: ResourceClaimFeatures, pods: Informer, users: ReservedFor
    ) -> None:
        self._client = client
        self._ref = ref
        self._features = features
        self._pods = pods
        self._users = users

    async def sync(self, claim: Object) -> None:
        """Removes the reservations of pods that are done; after the last one deallocates or deletes."""
        reserved = reserved_for(claim)
        valid = [consumer for consumer in reserved if await self._users.still_uses(claim, consumer)]
        protected = self._features.finalizer in (claim["metadata"].get("finalizers") or ())
        if len(valid) < len(reserved):
            await self._release(claim, valid, protected=protected)
        elif protected and not valid and self._is_over(claim):
            await self._deallocate_unused(claim)
        if not valid and self._features.releases_done:
            await self._delete_if_unused(claim)

    async def _release(self, claim: Object, valid: list[Object], *, protected: bool) -> None:
        """Removes reservations; with the last one the allocation goes, so that others can have the
        devices."""
        changed = copy.deepcopy(claim)
        status = changed["status"]
        status["reservedFor"] = valid
        if not valid:
            del status["reservedFor"]
            self._deallocate(changed, protected=protected)
        updated = await self._client.update(self._ref, changed, "status")
        if not (updated.get("status") or {}).get("allocation"):
            await self._unprotect(updated)

    def _deallocate(self, claim: Object, *, protected: bool) -> None:
        """Change the status of a claim that lost its last user, not one that never had any: drivers need
        not reserve what they allocate."""
        status = claim["status"]
        delayed = claims.is_delayed(claim, self._features)
        if protected:
            if delayed or claim["metadata"].get("deletionTimestamp") or not self._features.keeps_immediate:
                self._clear(status)
        elif self._features.asks_to_deallocate and (delayed or self._features.asks_for_every_claim):
            status["deallocationRequested"] = True

    def _is_over(self, claim: Object) -> bool:
        """Returns whether nobody will use the scheduler's allocation: the claim is being deleted, or the
        scheduler has given up the pod for which it was made."""
        if claim["metadata"].get("deletionTimestamp"):
            return True
        allocated = bool((claim.get("status") or {}).get("allocation"))
        return self._features.frees_unused and allocated and claims.is_delayed(claim, self._features)

    async def _deallocate_unused(self, claim: Object) -> None:
        if (claim.get("status") or {}).get("allocation"):
            changed = copy.deepcopy(claim)
            self._clear(changed["status"])
            claim = await self._client.update(self._ref, changed, "status")
        await self._unprotect(claim)

    def _clear(self, status: Object) -> None:
        """Removes the allocation, and the request to a driver that a controller of another release made."""
        status.pop("allocation", None)
        if self._features.takes_over_requests:
            status.pop("deallocationRequested", None)

    async def _unprotect(self, claim: Object) -> None:
        finalizers = claim["metadata"].get("finalizers") or []
        if self._features.finalizer not in finalizers:
            return
        left = [finalizer for finalizer in finalizers if finalizer != self._features.finalizer]
        metadata = {**claim["metadata"], "finalizers": left}
        await self._client.update(self._ref, {**claim, "metadata": metadata})

    async def _delete_if_unused(self, claim: Object) -> None:
        """Deletes a claim of a pod that will not run any more, even if the pod stays."""
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

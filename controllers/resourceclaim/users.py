"""Finds the users that still hold a claim.

A reservation ends only on certainty, because the scheduler may know more.

Behaviour of k8s.io/kubernetes/pkg/controller/resourceclaim (syncClaim), 1.26 … 1.37.
"""

from collections.abc import Container

from kubeskew.apimachinery.claim_users import is_pod_group
from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import PODS, Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.resourceclaim import claims
from kubeskew.controllers.resourceclaim.claims import ClaimError
from kubeskew.controllers.resourceclaim.features import ResourceClaimFeatures
from kubeskew.controllers.resourceclaim.groups import PodGroups


class ReservedFor:
    """The users of a claim; `deleted` holds the uids of pods and groups that were seen to go."""

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
        """Returns whether a reservation stays. Until 1.35 raises ClaimError if it is not a pod's."""
        namespace = claim["metadata"]["namespace"]
        if claims.is_pod_reference(consumer):
            pod = self._pods.get(namespace, consumer["name"])
            if pod is not None and self._features.releases_done and claims.is_done(pod):
                return False
            return await self._is_there(PODS, pod, namespace, consumer)
        if self._features.any_users:
            return True
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

"""Helps pods that got their node without the scheduler: tells drivers the node, reserves allocated claims.

Behaviour of k8s.io/kubernetes/pkg/controller/resourceclaim (syncPod), 1.28 … 1.37.
"""

from kubeskew.apimachinery.claim_users import reservation, reserved_for
from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import dra_refs, scheduling_context_ref
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework import pods
from kubeskew.controllers.framework.base import ControllerContext
from kubeskew.controllers.resourceclaim import claims
from kubeskew.controllers.resourceclaim.claims import ClaimError, ClaimNotCreated
from kubeskew.controllers.resourceclaim.features import ResourceClaimFeatures
from kubeskew.controllers.resourceclaim.groups import PodGroups


class BoundPods:
    """Does what the scheduler would have done for the claims of a pod."""

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
        self._contexts_ref = scheduling_context_ref(context.environment.version)
        self._contexts = context.informer(self._contexts_ref) if features.scheduling_contexts else None

    async def sync(self, pod: Object) -> None:
        """Look at the pod's claims in their order, as far as they are there. Raises ClaimError."""
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
            elif self._contexts is not None and claims.is_delayed(claim, self._features):
                await self._select_node(pod, self._contexts)
                return  # the driver allocates all claims of the pod for that node

    def lacks_reservation(self, pod: Object) -> bool:
        """Returns whether `sync` would reserve a claim for the pod: the first that is there and allocated
        without being reserved for it."""
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
        return not reserved and claims.can_be_reserved(claim, self._features)

    async def _reserve(self, pod: Object, pod_claim: Object, claim: Object) -> None:
        if not self._is_to_be_reserved(pod, claim):
            return
        reserved = [*reserved_for(claim), self._groups.consumer(pod, pod_claim)]
        changed = {**claim, "status": {**claim["status"], "reservedFor": reserved}}
        try:
            await self._client.update(self._claims_ref, changed, "status")
        except StatusError as error:
            raise ClaimError(f"reserve claim for pod: {error}") from error

    async def _select_node(self, pod: Object, contexts: Informer) -> None:
        """Say which node the pod has. Potential nodes need not be given: nothing is left to negotiate.

        Nobody deletes the context but the garbage collector, with the pod.
        """
        metadata, node = pod["metadata"], pod["spec"]["nodeName"]
        context = contexts.get(metadata["namespace"], metadata["name"])
        if context is None:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
            named = {"name": metadata["name"], "namespace": metadata["namespace"]}
            made = {
                "metadata": {**named, "ownerReferences": [{**owner, "controller": True}]},
                "spec": {"selectedNode": node},
            }
            try:
                await self._client.create(self._contexts_ref, made)
            except StatusError as error:
                raise ClaimError(f"create PodSchedulingContext: {error}") from error
        elif context["spec"].get("selectedNode") != node:
            changed = {**context, "spec": {**context["spec"], "selectedNode": node}}
            try:
                await self._client.update(self._contexts_ref, changed)
            except StatusError as error:
                text = f"update spec.selectedNode in PodSchedulingContext: {error}"
                raise ClaimError(text) from error

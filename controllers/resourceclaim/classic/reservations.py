"""Deallocates claims by asking their drivers, and selects the nodes of pods that the scheduler did not bind.

Sources: k8s.io/kubernetes/pkg/controller/resourceclaim, 1.28 to 1.31 (syncClaim, syncPod).
"""

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import Ref, scheduling_context_ref
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import ControllerContext
from kubeskew.controllers.resourceclaim.claims import ClaimError
from kubeskew.controllers.resourceclaim.classic.features import ClassicClaimFeatures
from kubeskew.controllers.resourceclaim.features import ResourceClaimFeatures
from kubeskew.controllers.resourceclaim.reservations import BoundPods, PodGroups, Releaser, ReservedFor


def is_delayed(claim: Object, features: ClassicClaimFeatures) -> bool:
    """Delayed claims are allocated by a driver's controller when a pod needs them."""
    spec, status = claim["spec"], claim.get("status") or {}
    if features.allocation_modes:
        return bool(spec.get("allocationMode") == "WaitForFirstConsumer")
    return bool(spec.get("controller") or (status.get("allocation") or {}).get("controller"))


class ClassicReleaser(Releaser):
    def __init__(
        self,
        context: ControllerContext,
        ref: Ref,
        features: ResourceClaimFeatures,
        pods: Informer,
        users: ReservedFor,
    ) -> None:
        super().__init__(context, ref, features, pods, users)
        self._classic = ClassicClaimFeatures.of(context.environment.gates)

    def is_delayed(self, claim: Object) -> bool:
        return is_delayed(claim, self._classic)

    def deallocate(self, claim: Object, *, protected: bool) -> None:
        delayed = self.is_delayed(claim)
        if protected:
            if delayed or claim["metadata"].get("deletionTimestamp") or not self._classic.keeps_immediate:
                self.clear(claim["status"])
        elif self._classic.asks_to_deallocate and (delayed or self._classic.asks_for_every_claim):
            claim["status"]["deallocationRequested"] = True


class ClassicBoundPods(BoundPods):
    def __init__(
        self, context: ControllerContext, features: ResourceClaimFeatures, claims: Informer, groups: PodGroups
    ) -> None:
        super().__init__(context, features, claims, groups)
        self._classic = ClassicClaimFeatures.of(context.environment.gates)
        self._contexts_ref = scheduling_context_ref(context.environment.version)
        wanted = self._classic.scheduling_contexts
        self._contexts = context.informer(self._contexts_ref) if wanted else None

    def can_be_reserved(self, claim: Object) -> bool:
        """The server refuses more users than it allows; nobody counts them before."""
        if not self._classic.shareable_flag:
            return super().can_be_reserved(claim)
        return not reserved_for(claim) or bool(claim["status"]["allocation"].get("shareable"))

    async def requests_allocation(self, pod: Object, claim: Object) -> bool:
        """The driver allocates all claims of the pod for its node."""
        if self._contexts is None or not is_delayed(claim, self._classic):
            return False
        await self._select_node(pod, self._contexts)
        return True

    async def _select_node(self, pod: Object, contexts: Informer) -> None:
        """Selects the pod's node in its PodSchedulingContext. Potential nodes are not needed any more.

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

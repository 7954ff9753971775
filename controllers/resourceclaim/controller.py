"""The resource claim controller: selects the pods and claims to reconcile after each change.

Behaviour of k8s.io/kubernetes/pkg/controller/resourceclaim, 1.26 … 1.36.
"""

from collections.abc import Awaitable, Callable
from typing import ClassVar, NamedTuple

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.client.refs import PODS, dra_refs
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.controllers.framework import pods
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key, key_of
from kubeskew.controllers.resourceclaim import claims
from kubeskew.controllers.resourceclaim.claims import ClaimError
from kubeskew.controllers.resourceclaim.creation import (
    ClaimMaker,
    ClaimMetrics,
    Owner,
    TemplateOf,
    Templates,
)
from kubeskew.controllers.resourceclaim.features import ResourceClaimFeatures
from kubeskew.controllers.resourceclaim.reservations import BoundPods, PodGroups, Releaser, ReservedFor

_REMEMBERED_DELETIONS = 5000


class Task(NamedTuple):
    kind: str  # pod, group, claim
    key: Key

    def __str__(self) -> str:
        return f"{self.kind}:{self.key}"


class ResourceClaimController(Controller):
    """Earlier generations of DRA have other parts."""

    bound_pods: ClassVar[type[BoundPods]] = BoundPods
    releaser: ClassVar[type[Releaser]] = Releaser
    reserved_for: ClassVar[type[ReservedFor]] = ReservedFor

    name = "resourceclaim-controller"
    component = "resource_claim"
    queue_name = "resource_claim"
    default_workers = 10

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        version = context.environment.version
        self._features = ResourceClaimFeatures.of(context.environment.gates)
        self._refs = dra_refs(version)
        self._deleted: dict[str, None] = {}  # uids of pods seen deleted, oldest first
        self._pods = context.informer(PODS)
        self._claims = context.informer(self._refs.claims)
        templates = self._templates(context)
        self._groups = PodGroups(context, self._features)
        self._metrics = ClaimMetrics(context.registry, self._features.metrics, self._claims.list)
        self._maker = ClaimMaker(
            self.client,
            self._refs,
            self._features,
            self._claims,
            templates,
            self._metrics,
            context.environment.clock,
            admin_access=self._features.admin_access,
        )
        self._bound = self.bound_pods(context, self._features, self._claims, self._groups)
        users = self.reserved_for(self.client, self._features, self._pods, self._groups, self._deleted)
        self._releaser = self.releaser(context, self._refs.claims, self._features, self._pods, users)
        self._pods.add_index("resourceclaim", self._keys_of_claims)
        self._pods.add_index("pod group", claims.group_keys)
        self._claims.add_index("consumer", _consumer_uids)
        self._pods.add_handler(self._pod_changed, lambda _, new: self._pod_changed(new), self._pod_deleted)
        self._claims.add_handler(
            self._claim_added, lambda _, new: self._enqueue_claim(new), self._claim_deleted
        )
        if self._groups.informer is not None:
            changed = self._group_changed
            self._groups.informer.add_handler(changed, lambda _, new: changed(new), self._group_deleted)

    def _templates(self, context: ControllerContext) -> TemplateOf:
        return Templates(context.informer(self._refs.claim_templates), self._refs, self._features).of

    async def stop(self) -> None:
        self._metrics.close()
        await super().stop()

    # -- event handlers

    def _keys_of_claims(self, pod: Object) -> list[str]:
        namespace = pod["metadata"]["namespace"]
        return [f"{namespace}/{name}" for name in claims.claim_names(pod, self._features)]

    def _pod_changed(self, pod: Object) -> None:
        if claims.is_done(pod):
            if self._features.releases_done:
                self._enqueue_claims_of(pod)
            if self._features.reserves_for_done and self._bound.lacks_reservation(pod):
                self.queue.add(Task("pod", key_of(pod)))
        elif pod["spec"].get("resourceClaims"):
            self.queue.add(Task("pod", key_of(pod)))

    def _pod_deleted(self, pod: Object) -> None:
        self._is_gone(pod)
        self._enqueue_claims_of(pod)

    def _is_gone(self, owner: Object) -> None:
        self._deleted[owner["metadata"]["uid"]] = None
        if len(self._deleted) > _REMEMBERED_DELETIONS:
            del self._deleted[next(iter(self._deleted))]

    def _group_changed(self, group: Object) -> None:
        if self._groups.enabled and group["spec"].get("resourceClaims"):
            self.queue.add(Task("group", key_of(group)))
        for pod in self._pods.by_index("pod group", str(key_of(group))):
            self._pod_changed(pod)

    def _group_deleted(self, group: Object) -> None:
        self._is_gone(group)
        for claim in self._claims.by_index("consumer", group["metadata"]["uid"]):
            self._enqueue_claim(claim)

    def _enqueue_claims_of(self, pod: Object) -> None:
        """Only claims that the pod names are enqueued; others are checked when they change, or deleted with
        the pod.
        """
        for name in claims.claim_names(pod, self._features):
            self.queue.add(Task("claim", Key(pod["metadata"]["namespace"], name)))

    def _enqueue_claim(self, claim: Object) -> None:
        if not self._features.overlooks_changed_claims:
            self.queue.add(Task("claim", key_of(claim)))
        if (claim.get("status") or {}).get("allocation"):
            # A pod that was bound without the scheduler waits for its reservation.
            self._enqueue_users(claim)

    def _claim_added(self, claim: Object) -> None:
        self._enqueue_claim(claim)
        self._enqueue_users(claim)

    def _claim_deleted(self, claim: Object) -> None:
        """Claims that were deleted by mistake are created again."""
        self._enqueue_users(claim)

    def _enqueue_users(self, claim: Object) -> None:
        metadata = claim["metadata"]
        users = self._pods.by_index("resourceclaim", f"{metadata['namespace']}/{metadata['name']}")
        group = claims.owning_group(claim) if self._groups.enabled else ""
        members = self._pods.by_index("pod group", f"{metadata['namespace']}/{group}") if group else []
        if group:
            self.queue.add(Task("group", Key(metadata["namespace"], group)))
        for pod in (*users, *members):
            if pod["spec"].get("resourceClaims"):
                self._pod_changed(pod)

    async def sync(self, key: Task) -> None:
        if key.kind == "pod":
            await self._sync_pod(key.key)
        elif key.kind == "group":
            await self._sync_group(key.key)
        else:
            claim = self._claims.get(*key.key)
            if claim is not None:
                await self._sync_claim(key, claim)

    async def _sync_claim(self, key: Task, claim: Object) -> None:
        await self._releaser.sync(claim)

    # -- pods and groups

    async def _sync_pod(self, key: Key) -> None:
        pod = self._pods.get(*key)
        if pod is None or pods.is_terminating(pod):
            return
        if is_terminal(pod) and not self._features.reserves_for_done:
            return
        await self._provide_all(Owner(PODS, pod), self._provide)
        if pod["spec"].get("nodeName") and self._features.serves_bound:
            await self._bound.sync(pod)

    async def _sync_group(self, key: Key) -> None:
        group = self._groups.informer.get(*key) if self._groups.informer is not None else None
        if group is not None and not pods.is_terminating(group):
            await self._provide_all(Owner(self._groups.ref, group), self._maker.provide)

    async def _provide_all(self, owner: Owner, provide: Callable[[Owner, Object], Awaitable[str]]) -> None:
        made: dict[str, str] = {}
        for entry in owner.entries:
            try:
                name = await provide(owner, entry)
            except (ClaimError, StatusError) as error:
                text = f"{owner.ref.kind}ResourceClaim {entry['name']}: {error}"
                about = {"apiVersion": owner.ref.api_version, "kind": owner.ref.kind, **owner.obj}
                self.recorder.event(about, "Warning", "FailedResourceClaimCreation", text)
                raise
            if name:
                made[entry["name"]] = name
        if made:
            await self._maker.record(owner, made)

    async def _provide(self, owner: Owner, entry: Object) -> str:
        """Claims come from the pod's own template or from its group; empty if the status has the name
        already, or the group's claim does not exist yet.
        """
        group = self._groups.owner_for(owner.obj, entry)
        if group is None or not claims.has_template(entry, self._features):
            return await self._maker.provide(owner, entry)
        claim = self._maker.made_for(group, entry["name"])
        name = claim["metadata"]["name"] if claim is not None else ""
        known = (owner.obj.get("status") or {}).get("resourceClaimStatuses") or ()
        return "" if {"name": entry["name"], "resourceClaimName": name} in known else str(name)


def _consumer_uids(claim: Object) -> list[str]:
    return [consumer["uid"] for consumer in reserved_for(claim)]

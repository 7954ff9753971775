"""The loop: which pods and claims to look at, and what is done about each.

Behaviour of k8s.io/kubernetes/pkg/controller/resourceclaim, 1.26 … 1.36.
"""

from typing import NamedTuple

from apimachinery.client.refs import PODS, dra_refs
from apimachinery.client.rest import Object
from apimachinery.errors import StatusError
from controllers import pods
from controllers.base import Controller, ControllerContext, Key, key_of
from controllers.resourceclaim import dialect
from controllers.resourceclaim.dialect import POD_CLAIM_ANNOTATION, ClaimError, ClaimNotCreated, Dialect
from controllers.resourceclaim.metrics import ClaimMetrics
from controllers.resourceclaim.releasing import Releaser

_FIELD_MANAGER = "ResourceClaimController"
_MAX_RESERVATIONS = 256
_REMEMBERED_DELETIONS = 5000


class Task(NamedTuple):
    """One piece of work: a pod's claims, or a claim's reservations."""

    kind: str  # pod, claim
    key: Key

    def __str__(self) -> str:
        return f"{self.kind}:{self.key}"


class ResourceClaimController(Controller):
    name = "resourceclaim-controller"
    component = "resource_claim"
    default_workers = 10

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        version = context.world.version
        self._dialect = Dialect.of(version)
        self._refs = dra_refs(version)
        admin_access = context.world.gates.enabled("DRAAdminAccess")
        self._admin_access = admin_access or not self._dialect.gated_admin_access
        self._deleted: dict[str, None] = {}  # uids of pods seen deleted, oldest first
        self._made: dict[str, dict[str, Object]] = {}  # by pod uid and pod claim, until the informer has them
        self._pods = context.informer(PODS)
        self._claims = context.informer(self._refs.claims)
        self._templates = context.informer(self._refs.claim_templates)
        self._releaser = Releaser(self.client, self._refs.claims, self._dialect, self._pods, self._deleted)
        self._metrics = ClaimMetrics(context.registry, version, self._claims.list)
        self._pods.add_index("resourceclaim", self._keys_of_claims)
        self._claims.add_index("owning pod", _owner_uids)
        self._claims.add_index("consumer", _consumer_uids)
        self._pods.add_handler(self._pod_changed, lambda _, new: self._pod_changed(new), self._pod_deleted)
        self._claims.add_handler(
            self._claim_added, lambda _, new: self._enqueue_claim(new), self._claim_deleted
        )

    async def stop(self) -> None:
        self._metrics.close()
        await super().stop()

    # -- what is told

    def _keys_of_claims(self, pod: Object) -> list[str]:
        namespace = pod["metadata"]["namespace"]
        return [f"{namespace}/{name}" for name in self._dialect.claim_names(pod)]

    def _pod_changed(self, pod: Object) -> None:
        if dialect.is_done(pod):
            self._enqueue_claims_of(pod)
        elif pod["spec"].get("resourceClaims"):
            self.queue.add(Task("pod", key_of(pod)))

    def _pod_deleted(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        self._made.pop(uid, None)
        self._deleted[uid] = None
        if len(self._deleted) > _REMEMBERED_DELETIONS:
            del self._deleted[next(iter(self._deleted))]
        self._enqueue_claims_of(pod)

    def _enqueue_claims_of(self, pod: Object) -> None:
        """All claims that the pod names, holds or owns."""
        metadata = pod["metadata"]
        for name in self._dialect.claim_names(pod):
            self.queue.add(Task("claim", Key(metadata["namespace"], name)))
        for index in ("owning pod", "consumer"):
            for claim in self._claims.by_index(index, metadata["uid"]):
                self._enqueue_claim(claim)

    def _enqueue_claim(self, claim: Object) -> None:
        self.queue.add(Task("claim", key_of(claim)))
        if (claim.get("status") or {}).get("allocation"):
            # A pod that was bound without the scheduler waits for its reservation.
            self._enqueue_users(claim)

    def _claim_added(self, claim: Object) -> None:
        owner = dialect.owning_pod(claim)
        if owner is not None and owner[1] in self._made:
            made = self._made[owner[1]]
            made.pop((claim["metadata"].get("annotations") or {}).get(POD_CLAIM_ANNOTATION, ""), None)
        self._enqueue_claim(claim)
        self._enqueue_users(claim)

    def _claim_deleted(self, claim: Object) -> None:
        """A claim that was deleted by mistake is made again."""
        self._enqueue_users(claim)

    def _enqueue_users(self, claim: Object) -> None:
        """The pods that name the claim; those that are done have no say in it."""
        metadata = claim["metadata"]
        for pod in self._pods.by_index("resourceclaim", f"{metadata['namespace']}/{metadata['name']}"):
            if pod["spec"].get("resourceClaims") and not dialect.is_done(pod):
                self.queue.add(Task("pod", key_of(pod)))

    async def sync(self, key: Task) -> None:
        if key.kind == "pod":
            await self._sync_pod(key.key)
        else:
            claim = self._claims.get(*key.key)
            if claim is not None:
                await self._releaser.sync(claim)

    # -- pods

    async def _sync_pod(self, key: Key) -> None:
        pod = self._pods.get(*key)
        if pod is None or pods.is_terminating(pod):
            return
        made: dict[str, str] = {}
        for pod_claim in pod["spec"].get("resourceClaims") or ():
            try:
                name = await self._provide(pod, pod_claim)
            except (ClaimError, StatusError) as error:
                text = f"PodResourceClaim {pod_claim['name']}: {error}"
                self.recorder.event(pod, "Warning", "FailedResourceClaimCreation", text)
                raise
            if name:
                made[pod_claim["name"]] = name
        if made:
            await self._record(pod, made)
        if pod["spec"].get("nodeName"):
            await self._reserve_all(pod)

    async def _provide(self, pod: Object, pod_claim: Object) -> str:
        """Make the claim of a template if it is missing; gives its name if the pod's status must say it."""
        namespace = pod["metadata"]["namespace"]
        try:
            name, owned = self._dialect.claim_name(pod, pod_claim)
        except ClaimNotCreated:
            pass
        except ClaimError as error:
            raise ClaimError(f"checking for claim before creating it: {error}") from error
        else:
            claim = self._claims.get(namespace, name) if name else None
            if name is None or (claim is not None and (not owned or _is_for(pod, claim))):
                return ""
        template_name = self._dialect.template_name(pod_claim)
        if template_name is None:
            return ""  # a claim that somebody else has yet to make
        claim = self._orphaned(pod, pod_claim["name"]) or await self._create(pod, pod_claim, template_name)
        made: str = claim["metadata"]["name"]
        return made if self._dialect.generated_names else ""

    def _orphaned(self, pod: Object, pod_claim_name: str) -> Object | None:
        """A claim made for the pod before, which its status does not tell of (yet)."""
        uid = pod["metadata"]["uid"]
        for claim in self._claims.by_index("owning pod", uid):
            annotations = claim["metadata"].get("annotations") or {}
            if annotations.get(POD_CLAIM_ANNOTATION) == pod_claim_name:
                return claim
        return self._made.get(uid, {}).get(pod_claim_name)

    async def _create(self, pod: Object, pod_claim: Object, template_name: str) -> Object:
        metadata = pod["metadata"]
        template = self._templates.get(metadata["namespace"], template_name)
        if template is None:
            kind = f"resourceclaimtemplate.{self._refs.claim_templates.group}"
            raise ClaimError(f'resource claim template "{template_name}": {kind} "{template_name}" not found')
        asks_admin_access = dialect.asks_admin_access(template)
        if asks_admin_access and not self._admin_access:
            raise ClaimError("admin access is requested, but the feature is disabled")
        claim = self._claim_from(template, pod, pod_claim["name"])
        try:
            made = await self.client.create(self._refs.claims, claim)
        except StatusError as error:
            self._metrics.created(success=False, admin_access=asks_admin_access)
            # Upstream prints the name here, which is still empty.
            raise ClaimError(f"create ResourceClaim {claim['metadata'].get('name', '')}: {error}") from error
        self._metrics.created(success=True, admin_access=asks_admin_access)
        self._made.setdefault(metadata["uid"], {})[pod_claim["name"]] = made
        return made

    def _claim_from(self, template: Object, pod: Object, pod_claim_name: str) -> Object:
        wanted, metadata = template["spec"].get("metadata") or {}, pod["metadata"]
        claim_metadata: Object = {
            **self._dialect.metadata_name(metadata["name"], pod_claim_name),
            "namespace": metadata["namespace"],
            "annotations": {**(wanted.get("annotations") or {}), POD_CLAIM_ANNOTATION: pod_claim_name},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        }
        if wanted.get("labels"):
            claim_metadata["labels"] = wanted["labels"]
        ref = self._refs.claims
        return {
            "apiVersion": ref.api_version,
            "kind": ref.kind,
            "metadata": claim_metadata,
            "spec": template["spec"].get("spec") or {},
        }

    async def _record(self, pod: Object, made: dict[str, str]) -> None:
        """Tell the pod's status the names; former ones too: applying takes back what is left out."""
        metadata = pod["metadata"]
        known = pod.get("status", {}).get("resourceClaimStatuses") or []
        others = [status for status in known if status["name"] not in made]
        statuses = [{"name": name, "resourceClaimName": claim} for name, claim in made.items()]
        await self.client.apply(
            PODS,
            {
                "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
                "status": {"resourceClaimStatuses": [*others, *statuses]},
            },
            field_manager=_FIELD_MANAGER,
            force=True,
            subresource="status",
        )

    async def _reserve_all(self, pod: Object) -> None:
        """For a pod that got its node without the scheduler, which would have reserved for it."""
        for pod_claim in pod["spec"].get("resourceClaims") or ():
            try:
                name, owned = self._dialect.claim_name(pod, pod_claim)
            except ClaimNotCreated:
                return
            claim = self._claims.get(pod["metadata"]["namespace"], name) if name else None
            if name is None:
                continue
            if claim is None:
                return
            if owned:
                dialect.check_owner(pod, claim)
            await self._reserve(pod, claim)

    async def _reserve(self, pod: Object, claim: Object) -> None:
        uid, reserved = pod["metadata"]["uid"], dialect.consumers(claim)
        status = claim.get("status") or {}
        if not status.get("allocation") or any(one["uid"] == uid for one in reserved):
            return
        if len(reserved) >= _MAX_RESERVATIONS:
            return
        consumer = {"resource": "pods", "name": pod["metadata"]["name"], "uid": uid}
        changed = {**claim, "status": {**status, "reservedFor": [*reserved, consumer]}}
        await self.client.update(self._refs.claims, changed, "status")


def _is_for(pod: Object, claim: Object) -> bool:
    try:
        dialect.check_owner(pod, claim)
    except ClaimError:
        return False
    return True


def _owner_uids(claim: Object) -> list[str]:
    owner = dialect.owning_pod(claim)
    return [owner[1]] if owner is not None else []


def _consumer_uids(claim: Object) -> list[str]:
    return [one["uid"] for one in dialect.consumers(claim) if dialect.is_pod_reference(one)]

"""Creates claims from templates, for pods and for groups of pods.

Behaviour of k8s.io/kubernetes/pkg/controller/resourceclaim, 1.26 … 1.37.
"""

from typing import NamedTuple

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import DRARefs, Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.rate_limit import RateLimit
from kubeskew.controllers.resourceclaim import claims
from kubeskew.controllers.resourceclaim.claims import POD_CLAIM_ANNOTATION, ClaimError, ClaimNotCreated
from kubeskew.controllers.resourceclaim.created_claims import CreatedClaims
from kubeskew.controllers.resourceclaim.features import ResourceClaimFeatures
from kubeskew.controllers.resourceclaim.metrics import ClaimMetrics

_FIELD_MANAGER = "ResourceClaimController"
_CLIENT_LIMIT = (
    20.0,
    30,
)  # requests a second, and at once: kube-controller-manager's --kube-api-qps and --kube-api-burst


class Owner(NamedTuple):
    """A pod or a group of pods."""

    ref: Ref
    obj: Object

    @property
    def key(self) -> str:
        metadata = self.obj["metadata"]
        return claims.owner_key(self.ref.kind, metadata["namespace"], metadata["uid"])

    @property
    def entries(self) -> list[Object]:
        """Returns the claims that the owner's spec names."""
        found: list[Object] = self.obj["spec"].get("resourceClaims") or []
        return found


class ClaimMaker:
    """Creates claims, and records them in their owners' status."""

    def __init__(
        self,
        client: APIClient,
        refs: DRARefs,
        features: ResourceClaimFeatures,
        informers: tuple[Informer, Informer | None],
        metrics: ClaimMetrics,
        clock: Clock,
        *,
        admin_access: bool,
    ) -> None:
        """`informers` are those of claims, which gets an index by owner, and of templates,
        None where pods hold these themselves."""
        self._client = client
        self._refs = refs
        self._features = features
        self._claims, self._templates = informers
        self._metrics = metrics
        self._admin_access = admin_access
        self._limit = RateLimit(clock, *_CLIENT_LIMIT)
        self._created = CreatedClaims(self._claims, clock, few=features.trusts_caches)

    async def provide(self, owner: Owner, entry: Object) -> str:
        """Make the claim of a template if it is missing; gives its name if the owner's status must say it.

        Raises ClaimError, before 1.28 also if somebody else has a claim of that name.
        """
        namespace = owner.obj["metadata"]["namespace"]
        try:
            name, owned = claims.claim_name(owner.obj, entry, self._features)
        except ClaimNotCreated:
            pass
        except ClaimError as error:
            raise ClaimError(f"checking for claim before creating it: {error}") from error
        else:
            claim = self._claims.get(namespace, name) if name else None
            if claim is not None and owned and not self._features.generated_names:
                claims.check_owner(owner.obj, claim)
            if name is None or (claim is not None and (not owned or owner.key in claims.owner_keys(claim))):
                return ""
        if not claims.has_template(entry, self._features):
            return ""  # a claim that somebody else has yet to make
        claim = self.made_for(owner, entry["name"])
        if claim is None and not self._features.trusts_caches and await self._exists(owner, entry):
            return ""
        claim = claim or await self._create(owner, entry)
        made: str = claim["metadata"]["name"]
        return made if self._features.generated_names else ""

    async def _exists(self, owner: Owner, entry: Object) -> bool:
        """Returns whether the API server has the claim that the owner's status names; it remembers that."""
        try:
            name, _ = claims.claim_name(owner.obj, entry, self._features)
            found = await self._client.get(self._refs.claims, name or "", owner.obj["metadata"]["namespace"])
        except ClaimNotCreated:
            return False
        except StatusError as error:
            if error.code == 404:
                return False
            raise
        if not name or owner.key not in claims.owner_keys(found):
            return False
        self._created.add(found)
        return True

    def made_for(self, owner: Owner, entry_name: str) -> Object | None:
        """Returns a claim made for the owner before that its status does not name (yet)."""
        name = owner.obj["metadata"]["name"]
        own = self._created.of_owner(owner.key)
        return next(
            (claim for claim in own if claims.is_made_for(claim, name, entry_name, self._features)), None
        )

    def _template(self, owner: Owner, entry: Object) -> Object:
        """Returns metadata and spec of the claim to make. Raises ClaimError."""
        if self._templates is None:
            inline: Object = entry["template"]
            return inline
        name = claims.template_name(entry, self._features) or ""
        template = self._templates.get(owner.obj["metadata"]["namespace"], name)
        if template is None:
            kind = f"resourceclaimtemplate.{self._refs.claim_templates.group}"
            raise ClaimError(f'resource claim template "{name}": {kind} "{name}" not found')
        found: Object = template["spec"]
        return found

    async def _create(self, owner: Owner, entry: Object) -> Object:
        template = self._template(owner, entry)
        asks_admin_access = claims.asks_admin_access(template)
        if asks_admin_access and not self._admin_access:
            raise ClaimError("admin access is requested, but the feature is disabled")
        claim = claim_from(template, owner, entry["name"], self._refs.claims, self._features)
        try:
            made = await self._client.create(self._refs.claims, claim)
        except StatusError as error:
            self._metrics.created(success=False, admin_access=asks_admin_access, owner=owner.ref)
            # Upstream prints the name here, which is still empty.
            raise ClaimError(f"create ResourceClaim {claim['metadata'].get('name', '')}: {error}") from error
        self._metrics.created(success=True, admin_access=asks_admin_access, owner=owner.ref)
        if self._features.generated_names:
            self._created.add(made)
        return made

    async def record(self, owner: Owner, made: dict[str, str]) -> None:
        """Writes the names to the owner's status; former ones too, because applying removes what is left
        out.

        A release that leaves them out writes them again when it sees that they are missing, and then without
        the others, without an end: as fast as its client's limit lets it, 20 requests a second.
        """
        metadata = owner.obj["metadata"]
        known = (owner.obj.get("status") or {}).get("resourceClaimStatuses") or []
        if self._features.drops_recorded:
            known = []
            await self._limit.wait()
        others = [status for status in known if status["name"] not in made]
        statuses = [{"name": name, "resourceClaimName": claim} for name, claim in made.items()]
        await self._client.apply(
            owner.ref,
            {
                "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
                "status": {"resourceClaimStatuses": [*others, *statuses]},
            },
            field_manager=_FIELD_MANAGER,
            force=True,
            subresource="status",
        )


def claim_from(
    template: Object, owner: Owner, entry_name: str, ref: Ref, features: ResourceClaimFeatures
) -> Object:
    """Returns the claim that an entry of the owner's spec gets, made from metadata and spec of a template."""
    wanted, metadata = template.get("metadata") or {}, owner.obj["metadata"]
    annotations: Object = dict(wanted.get("annotations") or {})
    if features.generated_names:
        annotations[POD_CLAIM_ANNOTATION] = entry_name
    claim_metadata: Object = {
        **claims.metadata_name(metadata["name"], entry_name, features),
        "namespace": metadata["namespace"],
        **({"annotations": annotations} if annotations else {}),
        "ownerReferences": [
            {
                "apiVersion": owner.ref.api_version,
                "kind": owner.ref.kind,
                "name": metadata["name"],
                "uid": metadata["uid"],
                "controller": True,
                **({"blockOwnerDeletion": True} if features.blocks_owner_deletion else {}),
            }
        ],
    }
    if wanted.get("labels"):
        claim_metadata["labels"] = wanted["labels"]
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "metadata": claim_metadata,
        "spec": template.get("spec") or {},
    }

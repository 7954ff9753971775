"""Creates claims from templates, for pods and for groups of pods, and remembers them until the informer is
known to have them; with the controller's metrics of claims, named as upstream names them at the release.

Sources: the mutation cache of k8s.io/kubernetes/pkg/controller/resourceclaim since 1.28 (117351;
cache.NewIntegerResourceVersionMutationCache of client-go, with added objects): a claim stays for an hour, or
until a hundred others were created (5000 since 140227). It is taken out when its owner's claims are looked up
while the informer has it, and not when it is deleted; k8s.io/kubernetes/pkg/controller/resourceclaim, 1.26 …
1.37.
"""

from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import DRARefs, Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.client.workqueue import RateLimit
from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import Key, key_of
from kubeskew.controllers.resourceclaim import claims
from kubeskew.controllers.resourceclaim.claims import (
    EXTENDED_RESOURCE_ANNOTATION,
    POD_CLAIM_ANNOTATION,
    ClaimError,
    ClaimNotCreated,
    owner_keys,
)
from kubeskew.controllers.resourceclaim.features import MetricFeatures, ResourceClaimFeatures

_CREATION = ("status", "admin_access", "owner_api_group", "owner_api_kind")
OWNER = "owner"  # the informer's index of claims by their owners

_SECONDS = 3600.0
_FEW, _MANY = 100, 5000
_FIELD_MANAGER = "ResourceClaimController"
_CLIENT_LIMIT = (
    20.0,
    30,
)  # requests a second, and at once: kube-controller-manager's --kube-api-qps and --kube-api-burst


class ClaimMetrics(Collector):
    """Counts creations, and claims when read. Another controller may register only after `close`."""

    def __init__(
        self, registry: CollectorRegistry, features: MetricFeatures, claims: Callable[[], Iterable[Object]]
    ) -> None:
        self._registry = registry
        self._features = features
        self._claims = claims
        self._creations: Counts[tuple[str, str, str, str]] = Counts()  # by _CREATION
        registry.register(self)

    def created(self, *, success: bool, admin_access: bool, owner: Ref) -> None:
        """`owner` is the resource of the claim's owner: pods, or groups."""
        status = "success" if success else "failure"
        self._creations[status, _text(admin_access), owner.group, owner.kind] += 1

    def close(self) -> None:
        self._registry.unregister(self)

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        if not self._features.by_status:
            yield from self._before_statuses()
            return
        prefix, by_owner = self._features.prefix, self._features.by_owner
        known = len(_CREATION) if by_owner else 2
        created = CounterMetricFamily(
            f"{prefix}resourceclaim_creates" if by_owner else f"{prefix}creates",
            "Number of ResourceClaims creation requests.",
            labels=_CREATION[:known],
        )
        counts: Counts[tuple[str, ...]] = Counts()
        for values, count in self._creations.items():
            counts[values[:known]] += count
        for labels, count in counts.items():
            created.add_metric(labels, count)
        yield created
        names = ["allocated", "admin_access", "source"]
        if not self._features.claims_by_source:
            names.pop()
        present = GaugeMetricFamily(f"{prefix}resource_claims", "Number of ResourceClaims.", labels=names)
        for labels, count in Counts(_labels(claim)[: len(names)] for claim in self._claims()).items():
            present.add_metric(labels, count)
        yield present

    def _before_statuses(self) -> Iterator[Metric]:
        prefix, attempted = self._features.prefix, self._features.attempts
        attempts = sum(self._creations.values())
        failures = sum(count for (status, *_), count in self._creations.items() if status == "failure")
        yield CounterMetricFamily(f"{prefix}{attempted}", "Attempts to create a claim.", value=attempts)
        yield CounterMetricFamily(f"{prefix}create_failures", "Failed attempts.", value=failures)
        if not self._features.claims:
            return
        claims = [*self._claims()]
        allocated = sum(_is_allocated(claim) for claim in claims)
        yield GaugeMetricFamily(f"{prefix}resource_claims", "Number of claims.", value=len(claims))
        yield GaugeMetricFamily(f"{prefix}allocated_resource_claims", "Allocated claims.", value=allocated)


def _is_allocated(claim: Object) -> bool:
    return bool((claim.get("status") or {}).get("allocation"))


def _labels(claim: Object) -> tuple[str, str, str]:
    annotations = claim["metadata"].get("annotations") or {}
    source = ""
    if annotations.get(EXTENDED_RESOURCE_ANNOTATION) == "true":
        source = "extended_resource"
    elif POD_CLAIM_ANNOTATION in annotations:
        source = "resource_claim_template"
    requests = (claim["spec"].get("devices") or {}).get("requests") or ()
    admin = any(
        (request.get("exactly") or {}).get("adminAccess") or request.get("adminAccess")
        for request in requests
    )
    return _text(_is_allocated(claim)), _text(admin), source


def _text(value: bool) -> str:
    return "true" if value else "false"


class CreatedClaims:
    def __init__(self, claims: Informer, clock: Clock, *, few: bool) -> None:
        self._claims = claims
        self._clock = clock
        self._limit = _FEW if few else _MANY
        self._created: dict[Key, tuple[float, Object]] = {}  # oldest first: until when each is kept
        claims.add_index(OWNER, owner_keys)

    def add(self, claim: Object) -> None:
        key = key_of(claim)
        self._created.pop(key, None)
        self._created[key] = self._clock.monotonic() + _SECONDS, claim
        if len(self._created) > self._limit:
            del self._created[next(iter(self._created))]

    def of_owner(self, owner: str) -> list[Object]:
        """Claims of the informer come first, then others that were created."""
        found = {key_of(claim): claim for claim in self._claims.by_index(OWNER, owner)}
        now = self._clock.monotonic()
        for key in [key for key, (until, _) in self._created.items() if until < now or key in found]:
            del self._created[key]
        others = [claim for _, claim in self._created.values() if owner in owner_keys(claim)]
        return [*found.values(), *others]


class Owner(NamedTuple):
    ref: Ref
    obj: Object

    @property
    def key(self) -> str:
        metadata = self.obj["metadata"]
        return claims.owner_key(self.ref.kind, metadata["namespace"], metadata["uid"])

    @property
    def entries(self) -> list[Object]:
        found: list[Object] = self.obj["spec"].get("resourceClaims") or []
        return found


TemplateOf = Callable[[Owner, Object], Object]  # metadata and spec of the claim of an owner's entry


class Templates:
    """ResourceClaimTemplates, which entries of `spec.resourceClaims` name."""

    def __init__(self, templates: Informer, refs: DRARefs, features: ResourceClaimFeatures) -> None:
        self._templates = templates
        self._group = refs.claim_templates.group
        self._features = features

    def of(self, owner: Owner, entry: Object) -> Object:
        """Raises ClaimError if the template does not exist."""
        name = claims.template_name(entry, self._features) or ""
        template = self._templates.get(owner.obj["metadata"]["namespace"], name)
        if template is None:
            kind = f"resourceclaimtemplate.{self._group}"
            raise ClaimError(f'resource claim template "{name}": {kind} "{name}" not found')
        found: Object = template["spec"]
        return found


class ClaimMaker:
    def __init__(
        self,
        client: APIClient,
        refs: DRARefs,
        features: ResourceClaimFeatures,
        informer: Informer,
        template_of: TemplateOf,
        metrics: ClaimMetrics,
        clock: Clock,
        *,
        admin_access: bool,
    ) -> None:
        """`informer` is that of claims, which gets an index by owner."""
        self._client = client
        self._refs = refs
        self._features = features
        self._claims = informer
        self._template_of = template_of
        self._metrics = metrics
        self._admin_access = admin_access
        self._limit = RateLimit(clock, *_CLIENT_LIMIT)
        self._created = CreatedClaims(self._claims, clock, few=features.trusts_caches)

    async def provide(self, owner: Owner, entry: Object) -> str:
        """Creates the claim of a template if it is missing; its name is returned if the owner's status must
        have it, else an empty text.

        Raises ClaimError, before 1.28 also if another owner has a claim of that name.
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
            return ""  # a claim that somebody else has yet to create
        claim = self.made_for(owner, entry["name"])
        if claim is None and not self._features.trusts_caches and await self._exists(owner, entry):
            return ""
        claim = claim or await self._create(owner, entry)
        made: str = claim["metadata"]["name"]
        return made if self._features.generated_names else ""

    async def _exists(self, owner: Owner, entry: Object) -> bool:
        """Asks the server for the claim that the owner's status names, and remembers it."""
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
        """Claims may have been created before the owner's status names them."""
        name = owner.obj["metadata"]["name"]
        own = self._created.of_owner(owner.key)
        return next(
            (claim for claim in own if claims.is_made_for(claim, name, entry_name, self._features)), None
        )

    async def _create(self, owner: Owner, entry: Object) -> Object:
        template = self._template_of(owner, entry)
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
        """Writes the names to the owner's status; former ones, too, because an apply removes absent entries.

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
    """`template` has metadata and spec; the claim belongs to an entry of the owner's spec."""
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

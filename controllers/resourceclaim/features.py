"""The differences between releases in how pods and claims refer to each other: the only place that looks
at the version."""

from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.claim_users import controller_of, is_for_pod, reserved_for
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.framework import pods
from kubeskew.controllers.framework.base import SyncError

POD_CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
EXTENDED_RESOURCE_ANNOTATION = "resource.kubernetes.io/extended-resource-claim"

_MAX_RESERVATIONS = 256
_NAME_BASE_LIMIT = 57  # leaves room for a hyphen and five random characters within 63


class ClaimNotCreated(Exception):  # noqa: N818 - upstream's ErrClaimNotFound: a state
    """The claim of a template does not exist yet."""


class ClaimError(SyncError):
    """An error of a pod's claim that a user has to know; the text is upstream's."""


@dataclass(frozen=True, slots=True)
class MetricFeatures:
    """The metrics of one release (which those of 1.37 are is from memory)."""

    prefix: str
    attempts: str  # the name that follows the prefix, where creations are not counted by their outcome
    by_status: bool  # creations are counted by outcome, in one metric
    by_owner: bool  # and by the kind of their owner (140422), under a longer name
    claims: bool  # counts what there is (pull request 127661)
    claims_by_source: bool  # pull request 134523

    @classmethod
    def of(cls, version: Version) -> "MetricFeatures":
        minor, drafted = version.minor, version.preview == "kep3063"
        prefix = "dynamic_resource_allocation_" if minor >= 37 else "resourceclaim_controller_"
        return cls(
            prefix="resource_controller_" if drafted else prefix,
            attempts="create" if drafted else "create_attempts",
            by_status=minor >= 34,
            by_owner=minor >= 37,
            claims=minor >= 32,
            claims_by_source=minor >= 35,
        )


@dataclass(frozen=True, slots=True)
class ResourceClaimFeatures:
    """Named decisions of one release."""

    inline_templates: bool  # KEP-3063 as drafted: spec.resourceClaims[].template, instead of a name
    tells_missing_classes: bool  # KEP-3063 as drafted: later the controllers of drivers do
    any_users: bool  # KEP-3063 as drafted: users are owner references, and need not be pods
    nested_source: bool  # until 1.30: spec.resourceClaims[].source
    generated_names: bool  # since 1.28, recorded in status.resourceClaimStatuses
    dashed_names: bool  # since 1.29 a hyphen stands before the random part (pull request 120336)
    finalizer: str  # of claims that the scheduler allocates; empty before structured parameters
    keeps_immediate: bool  # 1.30: an immediate claim stays allocated when its last user is gone
    releases_done: bool  # since 1.28 pods that are done lose reservations and their own claims (118817)
    asks_to_deallocate: bool  # 1.28 to 1.31: drivers, after the last user of a delayed claim (118936)
    serves_bound: bool  # since 1.28 pods that got a node without the scheduler are helped (118209)
    scheduling_contexts: bool  # 1.28 to 1.31: by telling drivers which node the pod has
    shareable_flag: bool  # until 1.30 the driver says whether a claim may have several users
    pod_groups: bool  # since 1.36 groups may hold reservations
    group_claims: bool  # are made, for the groups of pods (DRAWorkloadResourceClaims, GenericWorkload)
    watches_groups: bool
    checks_groups: bool  # since 1.37 a pod's group must be known before its claims are
    admin_access: bool  # 1.31 had the field without a gate
    blocks_owner_deletion: bool  # claims do, before pull request 134956
    frees_extended: bool  # devices of extended resources when their pod is done (pull request 134312)
    metrics: "MetricFeatures"

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "ResourceClaimFeatures":
        minor, drafted = version.minor, version.preview == "kep3063"
        controllers = minor <= 30 or (minor == 31 and gates.enabled("DRAControlPlaneController"))
        group_claims = minor >= 36 and gates.enabled("DRAWorkloadResourceClaims")
        group_claims = group_claims and gates.enabled("GenericWorkload")
        finalizer = "resource.kubernetes.io/delete-protection"
        if minor < 31:
            finalizer = "dra.k8s.io/delete-protection" if minor == 30 else ""
        return cls(
            inline_templates=drafted,
            tells_missing_classes=drafted,
            any_users=drafted,
            nested_source=minor <= 30 and not drafted,
            generated_names=minor >= 28,
            dashed_names=minor >= 29,
            finalizer=finalizer,
            keeps_immediate=minor == 30,
            releases_done=minor >= 28,
            asks_to_deallocate=28 <= minor <= 31,
            serves_bound=minor >= 28,
            scheduling_contexts=minor >= 28 and controllers,
            shareable_flag=minor <= 30,
            pod_groups=minor >= 36,
            group_claims=group_claims,
            watches_groups=group_claims or (minor >= 37 and gates.enabled("GenericWorkload")),
            checks_groups=minor >= 37,
            admin_access=minor <= 31 or gates.enabled("DRAAdminAccess"),
            blocks_owner_deletion=minor < 35,
            frees_extended=minor >= 35,
            metrics=MetricFeatures.of(version),
        )

    def _source(self, pod_claim: Object) -> Object:
        return pod_claim.get("source") or {} if self.nested_source else pod_claim

    def has_template(self, pod_claim: Object) -> bool:
        """Returns whether the claim of the entry is to be made."""
        if self.inline_templates:
            return pod_claim.get("template") is not None
        return self.template_name(pod_claim) is not None

    def template_name(self, pod_claim: Object) -> str | None:
        found: str | None = self._source(pod_claim).get("resourceClaimTemplateName")
        return found

    def claim_name(self, pod: Object, pod_claim: Object) -> tuple[str | None, bool]:
        """Returns the claim that an entry of `spec.resourceClaims` means, and whether the pod must own it.

        None if no claim is needed. Raises ClaimNotCreated, or ClaimError if the entry says nothing we know.
        """
        source = self._source(pod_claim)
        if source.get("resourceClaimName") is not None:
            return source["resourceClaimName"], False
        metadata, name = pod["metadata"], pod_claim["name"]
        if not self.has_template(pod_claim):
            raise ClaimError(
                f'pod "{metadata.get("namespace", "")}/{metadata["name"]}", spec.resourceClaim "{name}": '
                "none of the supported fields are set"
            )
        if not self.generated_names:
            return f"{metadata['name']}-{name}", True
        for status in pod.get("status", {}).get("resourceClaimStatuses") or ():
            if status["name"] == name:
                return status.get("resourceClaimName"), True
        raise ClaimNotCreated

    def claim_names(self, pod: Object) -> list[str]:
        """Returns the claims that a pod uses, as far as its status tells (before 1.35 not of extended
        resources)."""
        names = []
        for pod_claim in pod["spec"].get("resourceClaims") or ():
            try:
                name, _ = self.claim_name(pod, pod_claim)
            except (ClaimNotCreated, ClaimError):
                continue
            if name:
                names.append(name)
        extended = pod.get("status", {}).get("extendedResourceClaimStatus") or {}
        if self.frees_extended and extended.get("resourceClaimName"):
            names.append(extended["resourceClaimName"])
        return names

    def metadata_name(self, pod_name: str, claim_name: str) -> dict[str, str]:
        """Returns the name part of a new claim's metadata."""
        if not self.generated_names:
            return {"name": f"{pod_name}-{claim_name}"}
        return {"generateName": generate_name(pod_name, claim_name, dashed=self.dashed_names)}

    def can_be_reserved(self, claim: Object) -> bool:
        """Returns whether an allocated claim may have one more user."""
        reserved = reserved_for(claim)
        if self.shareable_flag:
            # The server refuses more users than it allows; nobody counts them before.
            return not reserved or bool(claim["status"]["allocation"].get("shareable"))
        return len(reserved) < _MAX_RESERVATIONS

    def is_delayed(self, claim: Object) -> bool:
        """Returns whether a driver's controller allocates the claim when a pod needs it."""
        spec, status = claim["spec"], claim.get("status") or {}
        if self.nested_source:
            return bool(spec.get("allocationMode") == "WaitForFirstConsumer")
        return bool(spec.get("controller") or (status.get("allocation") or {}).get("controller"))


def generate_name(pod_name: str, claim_name: str, *, dashed: bool = True) -> str:
    """Returns `<pod>-<claim>-`; both parts are cut in proportion if it is too long."""
    whole = f"{pod_name}-{claim_name}" + ("-" if dashed else "")
    if len(whole) <= _NAME_BASE_LIMIT:
        return whole
    cut = (len(part) * _NAME_BASE_LIMIT // len(whole) for part in (pod_name, claim_name))
    return f"{pod_name[: next(cut)]}-{claim_name[: next(cut)]}"


def is_made_for(claim: Object, owner_name: str, entry_name: str) -> bool:
    """Returns whether a claim of the owner is that of the entry.

    Claims of 1.27 and before have no annotation, but a name that tells.
    """
    entry = (claim["metadata"].get("annotations") or {}).get(POD_CLAIM_ANNOTATION)
    if entry is None:
        return bool(claim["metadata"]["name"] == f"{owner_name}-{entry_name}")
    return bool(entry == entry_name)


def owning_pod(claim: Object) -> tuple[str, str] | None:
    """Returns name and uid of the pod for which the claim was made."""
    owner = controller_of(claim)
    if owner is not None and (owner["apiVersion"], owner["kind"]) == ("v1", "Pod"):
        return owner["name"], owner["uid"]
    return None


def check_owner(pod: Object, claim: Object, *, groups: bool = False) -> None:
    """Raises ClaimError if the claim was made for another pod (or, with `groups`, group of pods)."""
    if not is_for_pod(claim, pod, groups=groups):
        names = [f"{obj['metadata']['namespace']}/{obj['metadata']['name']}" for obj in (claim, pod)]
        raise ClaimError(f"ResourceClaim {names[0]} was not created for pod {names[1]} (pod is not owner)")


def owning_group(claim: Object) -> str:
    """Returns the name of the group of pods for which the claim was made."""
    owner = controller_of(claim)
    return str(owner["name"]) if owner is not None and owner["kind"] == "PodGroup" else ""


def is_done(pod: Object) -> bool:
    """Returns whether no container runs or ever will."""
    return pods.is_terminal(pod) or (pods.is_terminating(pod) and not pod["spec"].get("nodeName"))


def is_pod_reference(consumer: Object) -> bool:
    """Returns whether the consumer is a pod; owner references (KEP-3063 as drafted) say so by their kind."""
    if "kind" in consumer:
        return (consumer.get("apiVersion"), consumer["kind"]) == ("v1", "Pod")
    return not consumer.get("apiGroup") and consumer.get("resource") == "pods"


def asks_admin_access(template: Object) -> bool:
    """Returns whether a request has admin access; v1alpha3 and v1beta1 have the field in the request
    itself."""
    requests: list[Any] = ((template.get("spec") or {}).get("devices") or {}).get("requests") or []
    return any(
        (request.get("exactly") or {}).get("adminAccess") or request.get("adminAccess")
        for request in requests
    )

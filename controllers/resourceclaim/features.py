"""Holds what differs between releases in how pods and claims refer to each other.

The controllers of claims and of device taints ask these decisions, and no version.
"""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version


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
    tells_of_waiting_claims: bool  # KEP-3063 as drafted: what immediate claims wait for
    any_users: bool  # KEP-3063 as drafted: users are owner references, and need not be pods
    nested_source: bool  # until 1.30: spec.resourceClaims[].source
    generated_names: bool  # since 1.28, recorded in status.resourceClaimStatuses
    dashed_names: bool  # since 1.29 a hyphen stands before the random part (pull request 120336)
    finalizer: str  # of claims that the scheduler allocates; empty before structured parameters
    keeps_immediate: bool  # 1.30: an immediate claim stays allocated when its last user is gone
    frees_unused: bool  # KEP-4381 as drafted: later a claim that the scheduler gave up stays allocated
    takes_over_requests: bool  # KEP-4381 as drafted: 1.30 cannot clear what a driver was asked to give back
    releases_done: bool  # since 1.28 pods that are done lose reservations and their own claims (118817)
    asks_to_deallocate: bool  # 1.28 to 1.31: drivers, after the last user of a delayed claim (118936)
    asks_for_every_claim: bool  # 1.31: whoever allocated it, if not the scheduler
    serves_bound: bool  # since 1.28 pods that got a node without the scheduler are helped (118209)
    scheduling_contexts: bool  # 1.28 to 1.31: by telling drivers which node the pod has
    shareable_flag: bool  # until 1.30 the driver says whether a claim may have several users
    pod_groups: bool  # since 1.36 groups may hold reservations
    group_claims: bool  # are made, for the groups of pods (DRAWorkloadResourceClaims, GenericWorkload)
    watches_groups: bool
    checks_groups: bool  # since 1.37 a pod's group must be known before its claims are
    admin_access: bool  # 1.31 had the field without a gate
    blocks_owner_deletion: bool  # claims keep their pods from a deletion in the foreground
    overlooks_changed_claims: bool  # and new ones: their reservations are looked at with their pods alone
    drops_recorded: bool  # from the pod's status, when the names of other claims are written
    trusts_caches: bool  # a claim that neither cache has is made, though the status names it
    reserves_for_done: bool  # allocated claims that others use, for pods that are done, too
    knows_claims_by_name: bool  # claims of 1.27 and before, without an annotation
    frees_extended: bool  # devices of extended resources when their pod is done
    metrics: "MetricFeatures"

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "ResourceClaimFeatures":
        minor, drafted = version.minor, version.preview == "kep3063"
        controllers = minor <= 30 or (minor == 31 and gates.enabled("DRAControlPlaneController"))
        group_claims = minor >= 36 and gates.enabled("DRAWorkloadResourceClaims")
        group_claims = group_claims and gates.enabled("GenericWorkload")
        semantic = version.preview == "kep4381"
        return cls(
            inline_templates=drafted,
            tells_of_waiting_claims=drafted,
            any_users=drafted,
            nested_source=minor <= 30 and not drafted,
            generated_names=minor >= 28,
            dashed_names=minor >= 29,
            finalizer=_finalizer(minor, semantic=semantic),
            keeps_immediate=minor == 30 or semantic,
            frees_unused=semantic,
            takes_over_requests=semantic,
            releases_done=minor >= 28,
            asks_to_deallocate=28 <= minor <= 31,
            asks_for_every_claim=minor == 31,
            serves_bound=minor >= 28,
            scheduling_contexts=minor >= 28 and controllers,
            shareable_flag=minor <= 30,
            pod_groups=minor >= 36,
            group_claims=group_claims,
            watches_groups=group_claims or (minor >= 37 and gates.enabled("GenericWorkload")),
            checks_groups=minor >= 37,
            admin_access=minor <= 31 or gates.enabled("DRAAdminAccess"),
            blocks_owner_deletion=not gates.bugs.mended("k8s-134956"),
            overlooks_changed_claims=gates.bugs.present("k8s-132334"),
            drops_recorded=gates.bugs.present("k8s-138407"),
            trusts_caches=gates.bugs.present("k8s-140217"),
            reserves_for_done=gates.bugs.present("k8s-141274"),
            knows_claims_by_name=minor <= 31,
            frees_extended=not gates.bugs.present("k8s-134312"),
            metrics=MetricFeatures.of(version),
        )


def _finalizer(minor: int, *, semantic: bool) -> str:
    """Returns the finalizer of claims that the scheduler allocates."""
    if semantic:
        return "semantic.dra.k8s.io/delete-protection"
    if minor == 30:
        return "dra.k8s.io/delete-protection"
    return "resource.kubernetes.io/delete-protection" if minor > 30 else ""

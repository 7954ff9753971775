"""Holds what differs between releases in how pods and claims refer to each other.

The controllers of claims and of device taints ask these decisions, and no version.
"""

from kubeskew.apimachinery.features import (
    FeatureTable,
    bug,
    by_release,
    choose,
    fixed,
    gate,
    only,
    part,
    preview,
    since,
    until,
)


class MetricFeatures(FeatureTable):
    """The metrics of one release (which those of 1.37 are is from memory)."""

    prefix: str = choose(
        preview("kep3063"),
        "resource_controller_",
        choose(since(37), "dynamic_resource_allocation_", "resourceclaim_controller_"),
    )
    # the name that follows the prefix, where creations are not counted by their outcome
    attempts: str = choose(preview("kep3063"), "create", "create_attempts")
    by_status: bool = since(34)  # creations are counted by outcome, in one metric
    by_owner: bool = since(37)  # and by the kind of their owner (140422), under a longer name
    claims: bool = since(32)  # counts what there is (pull request 127661)
    claims_by_source: bool = since(35)  # pull request 134523


class ResourceClaimFeatures(FeatureTable):
    """Named decisions of one release."""

    # KEP-3063 as drafted: spec.resourceClaims[].template, instead of a name
    inline_templates: bool = preview("kep3063")
    names_waiting_claims: bool = preview("kep3063")  # KEP-3063 as drafted: what immediate claims wait for
    # KEP-3063 as drafted: users are owner references, and need not be pods
    any_users: bool = preview("kep3063")
    nested_source: bool = until(30) & ~preview("kep3063")  # until 1.30: spec.resourceClaims[].source
    generated_names: bool = since(28)  # since 1.28, recorded in status.resourceClaimStatuses
    dashed_names: bool = since(29)  # since 1.29 a hyphen stands before the random part (pull request 120336)
    # of claims that the scheduler allocates; empty before structured parameters.
    finalizer: str = choose(
        preview("kep4381"),
        "semantic.dra.k8s.io/delete-protection",
        by_release(
            {0: "", 30: "dra.k8s.io/delete-protection", 31: "resource.kubernetes.io/delete-protection"}
        ),
    )
    # 1.30: an immediate claim stays allocated when its last user is gone
    keeps_immediate: bool = only(30) | preview("kep4381")
    # KEP-4381 as drafted: later a claim that the scheduler gave up stays allocated
    frees_unused: bool = preview("kep4381")
    # KEP-4381 as drafted: 1.30 cannot clear what a driver was asked to give back
    takes_over_requests: bool = preview("kep4381")
    # since 1.28 pods that are done lose reservations and their own claims (118817)
    releases_done: bool = since(28)
    # 1.28 to 1.31: drivers, after the last user of a delayed claim (118936)
    asks_to_deallocate: bool = since(28) & until(31)
    asks_for_every_claim: bool = only(31)  # 1.31: whoever allocated it, if not the scheduler
    # since 1.28 pods that got a node without the scheduler are helped (118209)
    serves_bound: bool = since(28)
    # 1.28 to 1.31: by telling drivers which node the pod has
    scheduling_contexts: bool = since(28) & (until(30) | (only(31) & gate("DRAControlPlaneController")))
    shareable_flag: bool = until(30)  # until 1.30 the driver says whether a claim may have several users
    pod_groups: bool = since(36)  # since 1.36 groups may hold reservations
    # are made, for the groups of pods (DRAWorkloadResourceClaims, GenericWorkload)
    group_claims: bool = since(36) & gate("DRAWorkloadResourceClaims") & gate("GenericWorkload")
    watches_groups: bool = (since(36) & gate("DRAWorkloadResourceClaims") & gate("GenericWorkload")) | (
        since(37) & gate("GenericWorkload")
    )
    checks_groups: bool = since(37)  # since 1.37 a pod's group must be known before its claims are
    admin_access: bool = until(31) | gate("DRAAdminAccess")  # 1.31 had the field without a gate
    # claims keep their pods from a deletion in the foreground
    blocks_owner_deletion: bool = ~fixed("k8s-134956")
    # and new ones: their reservations are looked at with their pods alone
    overlooks_changed_claims: bool = bug("k8s-132334")
    # from the pod's status, when the names of other claims are written
    drops_recorded: bool = bug("k8s-138407")
    # a claim that neither cache has is made, though the status names it
    trusts_caches: bool = bug("k8s-140217")
    # allocated claims that others use, for pods that are done, too
    reserves_for_done: bool = bug("k8s-141274")
    knows_claims_by_name: bool = until(31)  # claims of 1.27 and before, without an annotation
    frees_extended: bool = ~bug("k8s-134312")  # devices of extended resources when their pod is done
    metrics: "MetricFeatures" = part(MetricFeatures)

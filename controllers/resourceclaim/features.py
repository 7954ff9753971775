"""The features of the resource claim controller; the device taint eviction controller reads them as well.

Those of claims that drivers allocate are in `classic/features.py`.
"""

from kubeskew.apimachinery.features import (
    FeatureTable,
    bug,
    by_release,
    choose,
    fixed,
    gate,
    part,
    preview,
    since,
    until,
)


class MetricFeatures(FeatureTable):
    """The metrics of claims (those of 1.37 are a preview)."""

    prefix: str = choose(
        preview("kep3063"),
        "resource_controller_",
        choose(since(37), "dynamic_resource_allocation_", "resourceclaim_controller_"),
    )
    # The name behind the prefix, for creations that are not counted by outcome.
    attempts: str = choose(preview("kep3063"), "create", "create_attempts")
    by_status: bool = since(34)  # creations are counted by outcome
    by_owner: bool = since(37)  # and by the kind of the owner, under a longer name (140422)
    claims: bool = since(32)  # a metric of existing claims (pull request 127661)
    claims_by_source: bool = since(35)  # template or extended resource (pull request 134523)


class ResourceClaimFeatures(FeatureTable):
    """The claims that pods get, and their reservations and deallocation."""

    # The API of pods and claims
    inline_templates: bool = preview("kep3063")  # spec.resourceClaims[].template, instead of a name
    nested_source: bool = until(30) & ~preview("kep3063")  # spec.resourceClaims[].source
    generated_names: bool = since(28)  # claims have random names, recorded in status.resourceClaimStatuses
    dashed_names: bool = since(29)  # a hyphen before the random part (pull request 120336)

    # Of claims that the scheduler allocates; empty without structured parameters.
    finalizer: str = choose(
        preview("kep4381"),
        "semantic.dra.k8s.io/delete-protection",
        by_release(
            {0: "", 30: "dra.k8s.io/delete-protection", 31: "resource.kubernetes.io/delete-protection"}
        ),
    )
    # Ended pods lose their reservations, and the claims that were created for them (118817).
    releases_done: bool = since(28)
    # Pods that got a node without the scheduler get reservations (118209).
    serves_bound: bool = since(28)

    # Pod groups
    pod_groups: bool = since(36)  # claims may be reserved for pod groups
    # Claims are created for pod groups.
    group_claims: bool = since(36) & gate("DRAWorkloadResourceClaims") & gate("GenericWorkload")
    watches_groups: bool = (since(36) & gate("DRAWorkloadResourceClaims") & gate("GenericWorkload")) | (
        since(37) & gate("GenericWorkload")
    )
    checks_groups: bool = since(37)  # a pod gets no claims before its group exists

    admin_access: bool = until(31) | gate("DRAAdminAccess")
    blocks_owner_deletion: bool = ~fixed("k8s-134956")  # claims block a foreground deletion of their pods

    # Known bugs of reconciling
    # New and changed claims are not reconciled by themselves, only with their pods.
    overlooks_changed_claims: bool = bug("k8s-132334")
    # Writing the names of new claims drops the earlier entries of status.resourceClaimStatuses.
    drops_recorded: bool = bug("k8s-138407")
    # A claim that the caches lack is created again, although the pod's status names it.
    trusts_caches: bool = bug("k8s-140217")
    reserves_for_done: bool = bug("k8s-141274")  # claims in use are reserved for ended pods, too
    knows_claims_by_name: bool = until(31)  # claims of 1.27 and older, which have no annotation
    frees_extended: bool = ~bug("k8s-134312")  # an ended pod's claim for extended resources, too
    metrics: "MetricFeatures" = part(MetricFeatures)

"""The differences between releases in classic DRA, in which drivers allocate claims: 1.26 to 1.31.

What 1.28 does is a guess where 1.27 and 1.29 differ.
"""

from kubeskew.apimachinery.features import FeatureTable, bug, by_release, choose, only, preview, since, until


class ClassicFeatures(FeatureTable):
    """Named decisions of one scheduler."""

    # KEP-3063 as drafted: claims themselves say what is negotiated about them
    drafted: bool = preview("kep3063")
    group: str = choose(preview("kep3063"), "cdi.k8s.io", "resource.k8s.io")  # of claims, as errors name it
    # KEP-3063 as drafted: spec.resourceClaims[].template, instead of a name
    inline_templates: bool = preview("kep3063")
    context_kind: str = choose(until(26), "PodScheduling", "PodSchedulingContext")  # as errors name it
    named_resources: bool = only(30)  # 1.30: classes may leave the allocation to the scheduler
    # put on claims that the scheduler allocates; empty where it allocates none
    finalizer: str = choose(
        preview("kep4381"),
        "semantic.dra.k8s.io/delete-protection",
        choose(only(30), "dra.k8s.io/delete-protection", ""),
    )
    # 1.30 counted the scheduler's own claims among those a driver has answered for
    counts_own_claims: bool = only(30)
    nested_source: bool = until(30) & ~preview("kep3063")  # until 1.30: spec.resourceClaims[].source
    fixed_names: bool = until(27)  # until 1.27 the name of a generated claim is that of pod and entry
    # since 1.30 the scheduler's own cache says that a claim is missing, before the informer's
    assumes: bool = since(30)
    shareable_flag: bool = until(30)  # until 1.30 the driver says whether a claim may have several users
    pre_enqueue: bool = since(28)  # since 1.28 pods wait for their claims outside of the queue (119078)
    skips: bool = since(27)  # since 1.27 pods without claims are not filtered
    classes_in_filter: bool = until(28)  # until 1.28 a missing class is an error of each node (114685)
    # until 1.29 contexts and reservations are written before the binding (121876)
    writes_in_reserve: bool = until(29)
    # until 1.29 after each binding of a pod that has claims
    deletes_unseen_contexts: bool = until(29) & ~preview("kep4381")
    applies_on_conflict: bool = since(29)  # since 1.29, by force (120534)
    # since 1.29 no node is selected while a claim is being given back (120428)
    withdraws_node: bool = since(29)
    # since 1.29 waiting for a driver is no rejection, and ends without backoff (119517)
    waits_as_pending: bool = since(29)
    frees_immediate: bool = bug("k8s-122415")  # PostFilter may give back claims that were allocated at once
    # until 1.29 what PostFilter freed counts as success, and no other plugin is asked (122996)
    freeing_succeeds: bool = until(29)
    blocks_owner_deletion: bool = since(30)  # since 1.30 contexts keep their pod
    class_events: bool = since(29)  # since 1.29 classes that come or change wake pods (120213)
    taint_events: bool = since(30)  # since 1.30 taints of nodes do
    node_filter_reason: str = by_release(
        {0: "excluded by resource class node filter", 31: "excluded by device class node filter"}
    )

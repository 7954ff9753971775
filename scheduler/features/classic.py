"""The differences between releases in classic DRA, in which drivers allocate claims: 1.26 to 1.31.

What 1.28 does is a guess where 1.27 and 1.29 differ.
"""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version

_LAST = 31
_NAMED_RESOURCES = 30  # the release
_PREVIEWS = ("", "kep3063", "kep4381")  # those of classic DRA


@dataclass(frozen=True, slots=True)
class ClassicFeatures:
    """Named decisions of one scheduler."""

    drafted: bool  # KEP-3063 as drafted: claims themselves say what is negotiated about them
    group: str  # of claims, as errors name it
    inline_templates: bool  # KEP-3063 as drafted: spec.resourceClaims[].template, instead of a name
    context_kind: str  # as errors name it
    beside_devices: bool  # 1.31: `spec.controller` tells which claims are not the scheduler's own
    named_resources: bool  # 1.30: classes may leave the allocation to the scheduler
    semantic: bool  # KEP-4381 as drafted: they leave it to the scheduler by naming types of parameters
    finalizer: str  # put on claims that the scheduler allocates; empty where it allocates none
    counts_own_claims: bool  # 1.30 counted the scheduler's own claims among those a driver has answered for
    nested_source: bool  # until 1.30: spec.resourceClaims[].source
    fixed_names: bool  # until 1.27 the name of a generated claim is that of pod and entry
    assumes: bool  # since 1.30 the scheduler's own cache says that a claim is missing, before the informer's
    shareable_flag: bool  # until 1.30 the driver says whether a claim may have several users
    pre_enqueue: bool  # since 1.28 pods wait for their claims outside of the queue (119078)
    skips: bool  # since 1.27 pods without claims are not filtered
    classes_in_filter: bool  # until 1.28 a missing class is an error of each node (114685)
    writes_in_reserve: bool  # until 1.29 contexts and reservations are written before the binding (121876)
    deletes_unseen_contexts: bool  # until 1.29 after each binding of a pod that has claims
    applies_on_conflict: bool  # since 1.29, by force (120534)
    withdraws_node: bool  # since 1.29 no node is selected while a claim is being given back (120428)
    # since 1.29 waiting for a driver is no rejection, and ends without backoff (119517)
    waits_as_pending: bool
    frees_immediate: bool  # PostFilter may give back claims that were allocated at once
    # until 1.29 what PostFilter freed counts as success, and no other plugin is asked (122996)
    freeing_succeeds: bool
    blocks_owner_deletion: bool  # since 1.30 contexts keep their pod
    class_events: bool  # since 1.29 classes that come or change wake pods (120213)
    taint_events: bool  # since 1.30 taints of nodes do
    node_filter_reason: str

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "ClassicFeatures | None":
        """Returns None where no controller of a driver is talked to."""
        minor, drafted = version.minor, version.preview == "kep3063"
        semantic = version.preview == "kep4381"
        known = minor <= _LAST and version.preview in _PREVIEWS
        if not known or not gates.enabled("DynamicResourceAllocation"):
            return None
        if minor == _LAST and not gates.enabled("DRAControlPlaneController"):
            return None
        return cls(
            drafted=drafted,
            group="cdi.k8s.io" if drafted else "resource.k8s.io",
            inline_templates=drafted,
            context_kind="PodScheduling" if minor <= 26 else "PodSchedulingContext",
            beside_devices=minor == _LAST,
            named_resources=minor == _NAMED_RESOURCES,
            semantic=semantic,
            finalizer=_finalizer(minor, semantic=semantic),
            counts_own_claims=minor == _NAMED_RESOURCES,
            nested_source=minor <= 30 and not drafted,
            fixed_names=minor <= 27,
            assumes=minor >= 30,
            shareable_flag=minor <= 30,
            pre_enqueue=minor >= 28,
            skips=minor >= 27,
            classes_in_filter=minor <= 28,
            writes_in_reserve=minor <= 29,
            deletes_unseen_contexts=minor <= 29 and not semantic,
            applies_on_conflict=minor >= 29,
            withdraws_node=minor >= 29,
            waits_as_pending=minor >= 29,
            frees_immediate=gates.bugs.present("k8s-122415"),
            freeing_succeeds=minor <= 29,
            blocks_owner_deletion=minor >= 30,
            class_events=minor >= 29,
            taint_events=minor >= 30,
            node_filter_reason=f"excluded by {'resource' if minor <= 30 else 'device'} class node filter",
        )


def _finalizer(minor: int, *, semantic: bool) -> str:
    """Returns the finalizer of claims that the scheduler allocates."""
    if semantic:
        return "semantic.dra.k8s.io/delete-protection"
    return "dra.k8s.io/delete-protection" if minor == _NAMED_RESOURCES else ""

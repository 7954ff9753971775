"""The features of the stateful set controller."""

from kubeskew.apimachinery.features import FeatureTable, bug, choose, gate, since, until
from kubeskew.controllers.framework.features import WRITES_EMPTY_TIMES, indexed_owners, own_writes_awaited
from kubeskew.controllers.framework.owner_references import OwnerMatch


class StatefulSetFeatures(FeatureTable):
    """The pods, claims, revisions and status of stateful sets."""

    pod_index_label: bool = gate("PodIndexLabel")
    max_unavailable: bool = gate("MaxUnavailableStatefulSet")
    waits_for_own_writes: bool = own_writes_awaited("StaleControllerConsistencyStatefulSet")
    auto_delete_claims: bool = gate("StatefulSetAutoDeletePVC")  # persistentVolumeClaimRetentionPolicy
    writes_empty_times: bool = WRITES_EMPTY_TIMES  # in revisions
    # Revisions are compared by their bytes, and so those that 1.33 wrote are unequal.
    compares_revision_bytes: bool = bug("k8s-134773")
    # Labels of claim templates are written by several pods at once (podManagementPolicy Parallel).
    panics_in_parallel: bool = bug("k8s-121142")
    keeps_succeeded: bool = bug("k8s-120398")  # pods in phase Succeeded are not replaced
    capital_events: bool = since(35)  # "Create Pod …"; "create Pod …" before (stateful_pod_control.go)
    reports_recreation: bool = until(27)  # an event when an ended pod is replaced (stateful_set_control.go)

    # Updates and scaling
    # Unavailable pods of the old revision use up the maxUnavailable of a parallel set.
    counts_old_unavailable: bool = bug("k8s-137666")
    on_delete_never_completes: bool = bug("k8s-136833")  # with OnDelete, currentRevision never changes
    completes_without_missing: bool = bug("k8s-120731")  # an update is complete although pods are missing
    creates_before_scale_down: bool = bug("k8s-141057")  # a parallel set scales down last

    # availableReplicas is updated a full minReadySeconds after a reconciliation.
    waits_whole_periods: bool = bug("k8s-135428")
    panics_over_history: bool = bug("k8s-129301")  # if revisionHistoryLimit is negative
    owner_match: OwnerMatch = indexed_owners(34)  # of pods
    # Of controller revisions.
    revision_match: OwnerMatch = choose(since(36), OwnerMatch.WHOLE_REFERENCE, OwnerMatch.UID_IN_NAMESPACE)

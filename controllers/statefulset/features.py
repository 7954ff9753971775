"""The differences between releases and gates in how stateful sets keep their pods."""

from kubeskew.apimachinery.features import FeatureTable, bug, choose, gate, since, until
from kubeskew.controllers.framework.features import WRITES_EMPTY_TIMES, indexed_owners, own_writes_awaited
from kubeskew.controllers.framework.owner_references import OwnerMatch

# The last minor with an event when it replaces an ended pod (stateful_set_control.go).


class StatefulSetFeatures(FeatureTable):
    """Named decisions of the stateful set controller of one release and one set of gates."""

    pod_index_label: bool = gate("PodIndexLabel")
    max_unavailable: bool = gate("MaxUnavailableStatefulSet")
    waits_for_own_writes: bool = own_writes_awaited("StaleControllerConsistencyStatefulSet")
    # spec.persistentVolumeClaimRetentionPolicy counts
    auto_delete_claims: bool = gate("StatefulSetAutoDeletePVC")
    # revisions up to 1.33 have the template's creationTimestamp, as null
    writes_empty_times: bool = WRITES_EMPTY_TIMES
    compares_revision_bytes: bool = bug("k8s-134773")  # and so take those of 1.33 for others
    panics_in_parallel: bool = bug("k8s-121142")  # claims with labels, made for several pods at once
    keeps_succeeded: bool = bug("k8s-120398")  # does not replace pods that have ended well
    reports_recreation: bool = until(27)  # by an event when it replaces an ended pod
    # old pods that are not available keep a parallel set from replacing them
    counts_old_unavailable: bool = bug("k8s-137666")
    completes_rolling_alone: bool = bug("k8s-136833")  # with OnDelete the current revision stays for good
    # an update is over once it reached the pods that are there
    completes_without_missing: bool = bug("k8s-120731")
    # a parallel set scales down once all pods that it lacks could be made
    provides_first: bool = bug("k8s-141057")
    waits_whole_periods: bool = bug("k8s-135428")  # for pods to become available
    panics_over_history: bool = bug("k8s-129301")  # a negative revisionHistoryLimit
    owner_match: OwnerMatch = indexed_owners(34)  # of pods
    revision_match: OwnerMatch = choose(since(36), OwnerMatch.WHOLE_REFERENCE, OwnerMatch.UID_IN_NAMESPACE)

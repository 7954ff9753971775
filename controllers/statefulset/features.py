"""The differences between releases and gates in how stateful sets keep their pods."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.framework.features import owner_match, waits_for_own_writes, writes_empty_times
from kubeskew.controllers.framework.owner_references import OwnerMatch

# The last minor with an event when it replaces an ended pod (stateful_set_control.go).
_LAST_TO_REPORT = 27
_PODS_INDEXED_SINCE, _REVISIONS_INDEXED_SINCE = 34, 36


@dataclass(frozen=True, slots=True)
class StatefulSetFeatures:
    """Named decisions of the stateful set controller of one release and one set of gates."""

    pod_index_label: bool
    max_unavailable: bool
    waits_for_own_writes: bool
    auto_delete_claims: bool  # spec.persistentVolumeClaimRetentionPolicy counts
    writes_empty_times: bool  # revisions up to 1.33 have the template's creationTimestamp, as null
    compares_revision_bytes: bool  # and so take those of 1.33 for others
    panics_in_parallel: bool  # claims with labels, made for several pods at once
    keeps_succeeded: bool  # does not replace pods that have ended well
    reports_recreation: bool  # by an event when it replaces an ended pod
    counts_old_unavailable: bool  # old pods that are not available keep a parallel set from replacing them
    completes_rolling_alone: bool  # with OnDelete the current revision stays for good
    completes_without_missing: bool  # an update is over once it reached the pods that are there
    provides_first: bool  # a parallel set scales down once all pods that it lacks could be made
    waits_whole_periods: bool  # for pods to become available
    panics_over_history: bool  # a negative revisionHistoryLimit
    owner_match: OwnerMatch  # of pods
    revision_match: OwnerMatch

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "StatefulSetFeatures":
        return cls(
            pod_index_label=gates.enabled("PodIndexLabel"),
            max_unavailable=gates.enabled("MaxUnavailableStatefulSet"),
            waits_for_own_writes=waits_for_own_writes(gates, "StaleControllerConsistencyStatefulSet"),
            auto_delete_claims=gates.enabled("StatefulSetAutoDeletePVC"),
            writes_empty_times=writes_empty_times(version),
            compares_revision_bytes=gates.bugs.present("k8s-134773"),
            panics_in_parallel=gates.bugs.present("k8s-121142"),
            keeps_succeeded=gates.bugs.present("k8s-120398"),
            reports_recreation=version.minor <= _LAST_TO_REPORT,
            counts_old_unavailable=gates.bugs.present("k8s-137666"),
            completes_rolling_alone=gates.bugs.present("k8s-136833"),
            completes_without_missing=gates.bugs.present("k8s-120731"),
            provides_first=gates.bugs.present("k8s-141057"),
            waits_whole_periods=gates.bugs.present("k8s-135428"),
            panics_over_history=gates.bugs.present("k8s-129301"),
            owner_match=owner_match(version, gates, _PODS_INDEXED_SINCE),
            revision_match=OwnerMatch.WHOLE_REFERENCE
            if version.minor >= _REVISIONS_INDEXED_SINCE
            else OwnerMatch.UID_IN_NAMESPACE,
        )

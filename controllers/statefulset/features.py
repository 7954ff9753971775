"""The differences between releases and gates in how stateful sets keep their pods."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version

# The last minor with an event when it replaces an ended pod (from memory).
_LAST_TO_REPORT = 30


@dataclass(frozen=True, slots=True)
class StatefulSetFeatures:
    """Named decisions of the stateful set controller of one release and one set of gates."""

    pod_index_label: bool
    max_unavailable: bool
    auto_delete_claims: bool  # spec.persistentVolumeClaimRetentionPolicy counts
    reports_recreation: bool  # by an event when it replaces an ended pod

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "StatefulSetFeatures":
        return cls(
            pod_index_label=gates.enabled("PodIndexLabel"),
            max_unavailable=gates.enabled("MaxUnavailableStatefulSet"),
            auto_delete_claims=gates.enabled("StatefulSetAutoDeletePVC"),
            reports_recreation=version.minor <= _LAST_TO_REPORT,
        )

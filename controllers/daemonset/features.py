"""The differences between releases and gates in how daemon sets are reconciled."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.framework.features import owner_match, waits_for_own_writes, writes_empty_times
from kubeskew.controllers.framework.owner_references import OwnerMatch

_INDEXED_SINCE = 33


@dataclass(frozen=True, slots=True)
class DaemonSetFeatures:
    """Named decisions of the daemon set controller of one release and one set of gates."""

    waits_for_own_writes: bool
    writes_empty_times: bool  # revisions up to 1.33 have the template's creationTimestamp, as null
    owner_match: OwnerMatch
    forgives_old: bool  # old pods that are not available do not count for maxUnavailable

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "DaemonSetFeatures":
        return cls(
            waits_for_own_writes=waits_for_own_writes(gates, "StaleControllerConsistencyDaemonSet"),
            writes_empty_times=writes_empty_times(version),
            owner_match=owner_match(version, gates, _INDEXED_SINCE),
            forgives_old=gates.bugs.present("k8s-123232"),
        )

"""The differences between releases and gates in how daemon sets are reconciled."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.controllers.framework.features import waits_for_own_writes, writes_empty_times


@dataclass(frozen=True, slots=True)
class DaemonSetFeatures:
    """Named decisions of the daemon set controller of one release and one set of gates."""

    waits_for_own_writes: bool
    writes_empty_times: bool  # revisions up to 1.33 have the template's creationTimestamp, as null

    @classmethod
    def of(cls, gates: FeatureGates) -> "DaemonSetFeatures":
        return cls(
            waits_for_own_writes=waits_for_own_writes(gates, "StaleControllerConsistencyDaemonSet"),
            writes_empty_times=writes_empty_times(gates.version),
        )

"""The differences between gates in how daemon sets are reconciled."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.controllers.framework.features import waits_for_own_writes


@dataclass(frozen=True, slots=True)
class DaemonSetFeatures:
    """Named decisions of the daemon set controller of one set of gates."""

    waits_for_own_writes: bool

    @classmethod
    def of(cls, gates: FeatureGates) -> "DaemonSetFeatures":
        return cls(waits_for_own_writes=waits_for_own_writes(gates, "StaleControllerConsistencyDaemonSet"))

"""The differences between gates in what replica sets count."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.controllers.framework.features import waits_for_own_writes


@dataclass(frozen=True, slots=True)
class ReplicaSetFeatures:
    """Named decisions of the replica set controller of one set of gates."""

    terminating_replicas: bool
    waits_for_own_writes: bool

    @classmethod
    def of(cls, gates: FeatureGates) -> "ReplicaSetFeatures":
        return cls(
            terminating_replicas=gates.enabled("DeploymentReplicaSetTerminatingReplicas"),
            waits_for_own_writes=waits_for_own_writes(
                gates, "StaleControllerConsistencyReplicaSet", "k8s-129795"
            ),
        )

"""The differences between gates in what replica sets count."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates


@dataclass(frozen=True, slots=True)
class ReplicaSetFeatures:
    """Named decisions of the replica set controller of one set of gates."""

    terminating_replicas: bool

    @classmethod
    def of(cls, gates: FeatureGates) -> "ReplicaSetFeatures":
        return cls(
            terminating_replicas=gates.enabled("DeploymentReplicaSetTerminatingReplicas"),
        )

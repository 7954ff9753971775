"""The differences between releases and gates in what replica sets count."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.framework.features import owner_match, waits_for_own_writes
from kubeskew.controllers.framework.owner_references import OwnerMatch

_INDEXED_SINCE = 34


@dataclass(frozen=True, slots=True)
class ReplicaSetFeatures:
    """Named decisions of the replica set controller of one release and one set of gates."""

    terminating_replicas: bool
    waits_for_own_writes: bool
    owner_match: OwnerMatch
    waits_whole_periods: bool  # for pods to become available, once all are ready

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "ReplicaSetFeatures":
        return cls(
            terminating_replicas=gates.enabled("DeploymentReplicaSetTerminatingReplicas"),
            waits_for_own_writes=waits_for_own_writes(
                gates, "StaleControllerConsistencyReplicaSet", "k8s-129795"
            ),
            owner_match=owner_match(version, gates, _INDEXED_SINCE),
            waits_whole_periods=gates.bugs.present("k8s-132121"),
        )

"""The features of the replica set controller."""

from kubeskew.apimachinery.features import FeatureTable, bug, gate
from kubeskew.controllers.framework.features import indexed_owners, own_writes_awaited
from kubeskew.controllers.framework.owner_references import OwnerMatch


class ReplicaSetFeatures(FeatureTable):
    """The pods and the status of replica sets and replication controllers."""

    terminating_replicas: bool = gate("DeploymentReplicaSetTerminatingReplicas")
    waits_for_own_writes: bool = own_writes_awaited("StaleControllerConsistencyReplicaSet", "k8s-129795")
    owner_match: OwnerMatch = indexed_owners(34)  # of pods
    # availableReplicas is updated a full minReadySeconds after all pods are ready.
    waits_whole_periods: bool = bug("k8s-132121")

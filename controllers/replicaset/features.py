"""The differences between releases and gates in what replica sets count."""

from kubeskew.apimachinery.features import FeatureTable, bug, gate
from kubeskew.controllers.framework.features import indexed_owners, own_writes_awaited
from kubeskew.controllers.framework.owner_references import OwnerMatch


class ReplicaSetFeatures(FeatureTable):
    """Named decisions of the replica set controller of one release and one set of gates."""

    terminating_replicas: bool = gate("DeploymentReplicaSetTerminatingReplicas")
    waits_for_own_writes: bool = own_writes_awaited("StaleControllerConsistencyReplicaSet", "k8s-129795")
    owner_match: OwnerMatch = indexed_owners(34)
    waits_whole_periods: bool = bug("k8s-132121")  # for pods to become available, once all are ready

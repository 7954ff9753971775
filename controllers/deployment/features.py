"""The differences between releases and gates in what deployments count and report."""

from kubeskew.apimachinery.features import FeatureTable, bug, choose, gate, since
from kubeskew.controllers.framework.owner_references import OwnerMatch


class DeploymentFeatures(FeatureTable):
    """Named decisions of the deployment controller of one release and one set of gates."""

    terminating_replicas: bool = gate("DeploymentReplicaSetTerminatingReplicas")
    names_too_long: bool = bug("k8s-132560")  # those of replica sets of deployments whose names are long
    event_names_from_first: bool = since(32)  # "from 2 to 3"; before, "to 3 from 2" (from memory)
    # of the replica sets' pods; where they are listed, the deployment selects them too
    pod_match: OwnerMatch = choose(since(36), OwnerMatch.WHOLE_REFERENCE, OwnerMatch.UID_IN_NAMESPACE)

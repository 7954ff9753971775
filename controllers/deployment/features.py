"""The features of the deployment controller."""

from kubeskew.apimachinery.features import FeatureTable, bug, choose, gate, since
from kubeskew.controllers.framework.owner_references import OwnerMatch


class DeploymentFeatures(FeatureTable):
    """The status, events and replica sets of deployments."""

    terminating_replicas: bool = gate("DeploymentReplicaSetTerminatingReplicas")
    names_too_long: bool = bug("k8s-132560")  # the names of replica sets are not cut to the limit
    event_names_from_first: bool = since(32)  # "from 2 to 3", else "to 3 from 2"
    # The owner references of old pods; where these are listed, not indexed, the selector must match as well.
    pod_match: OwnerMatch = choose(since(36), OwnerMatch.WHOLE_REFERENCE, OwnerMatch.UID_IN_NAMESPACE)

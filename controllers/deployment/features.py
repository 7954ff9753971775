"""The differences between releases and gates in what deployments count and report."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.framework.owner_references import OwnerMatch

_FROM_FIRST_SINCE = 32
_PODS_INDEXED_SINCE = 36


@dataclass(frozen=True, slots=True)
class DeploymentFeatures:
    """Named decisions of the deployment controller of one release and one set of gates."""

    terminating_replicas: bool
    names_too_long: bool  # those of replica sets of deployments whose names are long
    event_names_from_first: bool  # "from 2 to 3"; before, "to 3 from 2" (from memory)
    pod_match: OwnerMatch  # of the replica sets' pods; where they are listed, the deployment selects them too

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "DeploymentFeatures":
        return cls(
            terminating_replicas=gates.enabled("DeploymentReplicaSetTerminatingReplicas"),
            names_too_long=gates.bugs.present("k8s-132560"),
            event_names_from_first=version.minor >= _FROM_FIRST_SINCE,
            pod_match=OwnerMatch.WHOLE_REFERENCE
            if version.minor >= _PODS_INDEXED_SINCE
            else OwnerMatch.UID_IN_NAMESPACE,
        )

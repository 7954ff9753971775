"""The differences between releases and gates in what deployments count and report."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version

_FROM_FIRST_SINCE = 32


@dataclass(frozen=True, slots=True)
class DeploymentFeatures:
    """Named decisions of the deployment controller of one release and one set of gates."""

    terminating_replicas: bool
    event_names_from_first: bool  # "from 2 to 3"; before, "to 3 from 2" (from memory)

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "DeploymentFeatures":
        return cls(
            terminating_replicas=gates.enabled("DeploymentReplicaSetTerminatingReplicas"),
            event_names_from_first=version.minor >= _FROM_FIRST_SINCE,
        )

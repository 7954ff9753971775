"""What differs from release to release in how jobs are counted and ended."""

from dataclasses import dataclass

from apimachinery.gates import FeatureGates
from apimachinery.versions import Version

# Since then the final condition waits until the last pod has ended (JobManagedBy, JobPodReplacementPolicy).
_DELAYED_SINCE = 31


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the job controller of one release and one set of gates speaks."""

    delays_final_condition: bool
    index_label: bool
    shows_ready: bool
    shows_terminating: bool
    managed_by: bool

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "Dialect":
        announced = gates.enabled("JobManagedBy") or gates.enabled("JobPodReplacementPolicy")
        return cls(
            delays_final_condition=version.minor >= _DELAYED_SINCE and announced,
            index_label=gates.enabled("PodIndexLabel"),
            shows_ready=gates.enabled("JobReadyPods"),
            shows_terminating=gates.enabled("JobPodReplacementPolicy"),
            managed_by=gates.enabled("JobManagedBy"),
        )

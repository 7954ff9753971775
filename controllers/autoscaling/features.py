"""The differences between releases and gates in how autoscalers count."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version

# Since then memory is shown as it was measured, with Ki and Mi; from memory.
_BINARY_MEMORY_SINCE = 37


@dataclass(frozen=True, slots=True)
class AutoscalerFeatures:
    """Named decisions of the autoscaler's controller of one release and one set of gates."""

    configurable_tolerance: bool
    pod_level_requests: bool
    observed_generation: bool
    binary_memory: bool
    needs_container: bool  # each pod has metrics of the container that is measured, or nothing is counted

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "AutoscalerFeatures":
        return cls(
            configurable_tolerance=gates.enabled("HPAConfigurableTolerance"),
            pod_level_requests=gates.enabled("PodLevelResources"),
            observed_generation=gates.enabled("HPAGeneration"),
            binary_memory=version.minor >= _BINARY_MEMORY_SINCE,
            needs_container=gates.bugs.present("k8s-127193"),
        )

"""The differences between releases and gates in how autoscalers count."""

from kubeskew.apimachinery.features import FeatureTable, bug, gate, since

# Since then memory is shown as it was measured, with Ki and Mi; from memory.


class AutoscalerFeatures(FeatureTable):
    """Named decisions of the autoscaler's controller of one release and one set of gates."""

    configurable_tolerance: bool = gate("HPAConfigurableTolerance")
    pod_level_requests: bool = gate("PodLevelResources")
    observed_generation: bool = gate("HPAGeneration")
    binary_memory: bool = since(37)
    # each pod has metrics of the container that is measured, or nothing is counted
    needs_container: bool = bug("k8s-127193")

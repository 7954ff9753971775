"""The features of the horizontal pod autoscaler controller."""

from kubeskew.apimachinery.features import FeatureTable, bug, gate, since


class AutoscalerFeatures(FeatureTable):
    """Scaling, and the status of autoscalers."""

    configurable_tolerance: bool = gate("HPAConfigurableTolerance")
    pod_level_requests: bool = gate("PodLevelResources")  # utilization is of the pod's own requests
    observed_generation: bool = gate("HPAGeneration")
    binary_memory: bool = since(37)  # memory in the status as measured, with Ki and Mi (a preview of 1.37)
    # A ContainerResource metric fails if the metrics of one pod lack the container.
    needs_container: bool = bug("k8s-127193")

"""The features of the device taint eviction controller."""

from kubeskew.apimachinery.cel.device_features import DeviceFeatures
from kubeskew.apimachinery.features import MINOR, FeatureTable, bug, fixed, gate, made, since, until


class DeviceTaintFeatures(FeatureTable):
    """The pods that device taints and DeviceTaintRules evict."""

    pod_group_claims: bool = gate("DRAWorkloadResourceClaims")  # claims may be reserved for pod groups
    extended_claims: bool = ~bug("k8s-142289")  # also of a pod's claim for extended resources
    rules: bool = until(34) | gate("DRADeviceTaintRules")  # DeviceTaintRules are read
    rule_status: bool = since(35)  # the status of rules is written
    # Rules select devices by class and CEL selectors, and evictions come from changes of slices.
    rules_name_classes: bool = until(34)
    # The CEL of the selectors of rules.
    cel: DeviceFeatures = made(
        DeviceFeatures,
        consumable_capacity=gate("DRAConsumableCapacity"),
        stored=True,
        minor=MINOR,
        lists_ungated=fixed("k8s-139395"),
    )
    # Evictions go through a work queue with metrics, else each has a timer.
    has_queue: bool = since(35)
    # Only the first pod that a controller evicts gets an event (deletePodHandler, 1.33 and 1.34).
    one_event: bool = until(34)

"""The differences between releases and gates in whom device taints and their rules concern."""

from kubeskew.apimachinery.cel.device_features import DeviceFeatures
from kubeskew.apimachinery.features import MINOR, FeatureTable, bug, fixed, gate, made, since, until


class DeviceTaintFeatures(FeatureTable):
    """Named decisions of the device taint eviction controller of one release and one set of gates."""

    pod_group_claims: bool = gate("DRAWorkloadResourceClaims")  # groups of pods may hold reservations
    extended_claims: bool = ~bug("k8s-142289")  # a pod's claim for extended resources counts, too
    rules: bool = until(34) | gate("DRADeviceTaintRules")  # are read; up to 1.34 by the gate of taints alone
    rule_status: bool = since(35)  # is written
    rules_name_classes: bool = until(34)  # and selectors, and taints reach pods by the slices that have them
    # of the selectors of rules
    cel: DeviceFeatures = made(
        DeviceFeatures,
        consumable_capacity=gate("DRAConsumableCapacity"),
        stored=True,
        minor=MINOR,
        lists_ungated=fixed("k8s-139395"),
    )
    # of the usual kind, with metrics; up to 1.34 deletions of pods are timed by themselves
    has_queue: bool = since(35)

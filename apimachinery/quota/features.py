"""The differences between releases and gates in what quotas count, in API server and controller manager."""

from kubeskew.apimachinery.features import FeatureTable, bug, fixed, gate, since, until


class PodUsageFeatures(FeatureTable):
    """The measurement of pods."""

    status: bool = gate("InPlacePodVerticalScaling")  # a container counts with the larger of spec and status
    pod_level: bool = gate("PodLevelResources")  # the pod's own resources replace the sums
    pod_level_resize: bool = gate("InPlacePodLevelResourcesVerticalScaling")  # these may be resized
    # A subresource alone resizes pods since 1.32.
    resized_by_update: bool = until(31) & gate("InPlacePodVerticalScaling")
    # A pod that gets a deadline, or loses it, changes from one scope to the other.
    sees_scope_changes: bool = fixed("k8s-130060")
    # Implicit extended resources of device classes count, with or without the gate (134210). Before, a name
    # of kubernetes.io that is none of the known ones is nobody's: no entry in a quota's `used`.
    implicit_names: bool = since(35)
    # A change of what the statuses of containers say of resources has the quotas measured again.
    resize_frees: bool = since(32) & gate("InPlacePodVerticalScaling")


class ClaimUsageFeatures(FeatureTable):
    """The measurement of claims of volumes and devices."""

    classes_of_volumes: bool = gate("VolumeAttributesClass")  # quotas may be scoped to one
    devices: bool = gate("DynamicResourceAllocation")
    counts_extended: bool = since(35) & gate("DRAExtendedResource")  # for extended resources (134210)
    # While a pod's status names no claim, every claim made for it counts as its own, not the first alone.
    spares_all: bool = bug("k8s-135404")

"""The features of resource quotas, in API server and controller manager."""

from kubeskew.apimachinery.features import FeatureTable, bug, fixed, gate, since, until


class PodUsageFeatures(FeatureTable):
    """The usage of pods."""

    status: bool = gate("InPlacePodVerticalScaling")  # a container counts as the larger of spec and status
    pod_level: bool = gate("PodLevelResources")  # the pod's own resources replace the sums
    pod_level_resize: bool = gate("InPlacePodLevelResourcesVerticalScaling")  # and count when resized
    resized_by_update: bool = until(31) & gate("InPlacePodVerticalScaling")  # without the subresource
    # A pod whose activeDeadlineSeconds is set or removed is counted again: its scope changes.
    sees_scope_changes: bool = fixed("k8s-130060")
    # Implicit extended resources of device classes count, with or without the gate (134210). Without that,
    # unknown names of kubernetes.io have no entry in a quota's `used`.
    implicit_names: bool = since(35)
    # A pod is counted again when the resources in its containers' statuses change.
    resize_frees: bool = since(32) & gate("InPlacePodVerticalScaling")


class ClaimUsageFeatures(FeatureTable):
    """The usage of volume claims and resource claims."""

    classes_of_volumes: bool = gate("VolumeAttributesClass")  # the scope of quotas
    devices: bool = gate("DynamicResourceAllocation")  # resource claims count
    counts_extended: bool = since(35) & gate("DRAExtendedResource")  # as extended resources (134210)
    # While a pod's status names no claim, each claim made for it is set off against its usage.
    offsets_every_claim: bool = bug("k8s-135404")

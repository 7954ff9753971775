"""The differences between releases and gates in the search."""

from enum import IntEnum

from kubeskew.apimachinery.cel.device_features import DeviceFeatures
from kubeskew.apimachinery.features import (
    MINOR,
    FeatureTable,
    bug,
    choose,
    fixed,
    gate,
    made,
    only,
    part,
    since,
    until,
)


class Implementation(IntEnum):
    """Upstream has three allocators since 1.34; the first that supports all enabled features is used."""

    STABLE = 0
    INCUBATING = 1
    EXPERIMENTAL = 2


_ADMIN_ACCESS = gate("DRAAdminAccess") | until(31)  # 1.31 had the field without a gate
_BINDING_CONDITIONS = gate("DRADeviceBindingConditions") & gate("DRAResourceClaimDeviceStatus")
_LISTS = gate("DRAListTypeAttributes") & ~bug("k8s-139332")
_DEVICE_STATUS = only(34) & gate("DRAResourceClaimDeviceStatus")  # alone chose the newest one (133967)

# Each step of features asks for a newer implementation; since 1.36 the oldest one has the first step, too.
_FIRST_STEP = (
    _ADMIN_ACCESS | gate("DRAPrioritizedList") | gate("DRAPartitionableDevices") | gate("DRADeviceTaints")
)
_SECOND_STEP = gate("DRAConsumableCapacity") | _BINDING_CONDITIONS | _DEVICE_STATUS
_THIRD_STEP = _LISTS | gate("DRAFractionalCapacityRange") | gate("DRAOptionalNodeOperations")
_EXPERIMENTAL = since(34) & (_THIRD_STEP | (until(35) & _SECOND_STEP))
_NOT_STABLE = since(34) & (_THIRD_STEP | _SECOND_STEP | (until(35) & _FIRST_STEP))


class AllocatorGates(FeatureTable):
    """The gates that the allocator looks at."""

    admin_access: bool = _ADMIN_ACCESS
    prioritized_list: bool = gate("DRAPrioritizedList")
    partitionable_devices: bool = gate("DRAPartitionableDevices")
    device_taints: bool = gate("DRADeviceTaints")
    consumable_capacity: bool = gate("DRAConsumableCapacity")
    binding_conditions: bool = _BINDING_CONDITIONS  # are written to the status of devices
    list_attributes: bool = _LISTS
    fractional_ranges: bool = gate("DRAFractionalCapacityRange")
    optional_node_operations: bool = gate("DRAOptionalNodeOperations")


class AllocatorFeatures(FeatureTable):
    """Named decisions; the search asks for no version and no gate."""

    gates: AllocatorGates = part(AllocatorGates)
    implementation: Implementation = choose(
        _EXPERIMENTAL,
        Implementation.EXPERIMENTAL,
        choose(_NOT_STABLE, Implementation.INCUBATING, Implementation.STABLE),
    )
    knows_partitions: bool = since(33)  # 1.33+: counters, alternatives and tolerations are fields of the API
    knows_binding: bool = since(34)  # 1.34+: so are binding conditions
    # 1.35+: completeness and validity are judged over all slices of a pool, also those for other nodes;
    # an incomplete pool is not used at all; an invalid one is an error if nothing else fits.
    whole_pools: bool = since(35)
    # of a pool, those for other nodes: the pool looks incomplete
    overlooks_other_slices: bool = bug("k8s-134466")
    duplicate_devices_invalid: bool = since(32)  # 1.32+
    invalid_pools_fail: bool = until(34)  # up to 1.34: a search that comes to an invalid pool ends there
    empty_all_fails: bool = ~bug("k8s-129560")  # a request for all devices fails if there are none
    # A request for all devices gets those of any class, without those in use; where what comes after it finds
    # nothing, the search ends with an error.
    all_overlook_class: bool = bug("k8s-127565")
    # the devices of a request for all stay taken when the search steps back
    all_devices_kept: bool = bug("k8s-131660")
    # A pool that is incomplete or invalid ends the search for such a request on all nodes, not on its own.
    all_ends_attempt: bool = bug("k8s-141898")
    all_devices_or_none: bool = until(32)  # up to 1.32 the search ends if one of them cannot be had
    # those that a request has already count against the limit of a claim again
    counts_devices_twice: bool = bug("k8s-131662")
    # a request for all devices that comes to one with counters; not the stable one
    all_counted_panics: bool = _NOT_STABLE & bug("k8s-138885")
    # with admin access a claim does not get the same device twice
    admin_once_per_claim: bool = ~bug("k8s-131299")
    every_taint_prevents: bool = until(34)  # up to 1.34, whatever its effect
    tolerations_in_results: bool = ~bug("k8s-134479")
    # 1.36+: the slices of a pool are searched by name; the stable one takes them as they come, except in
    # recordings with no gate on. Before, and for pools, there is no order (here: that of their names).
    sorted_slices: bool = since(36) & (_NOT_STABLE | ~(_FIRST_STEP | _SECOND_STEP | _THIRD_STEP))
    # What is known of one alternative is taken for another, and after one device a request for all goes on
    # with the first alternative.
    alternatives_mixed: bool = bug("k8s-137347")
    # pools with binding conditions are a last resort
    binding_pools_last: bool = choose(since(36), _NOT_STABLE, _EXPERIMENTAL)
    # 1.36+, not the stable one: within a request only later devices are tried
    combinations: bool = since(36) & _NOT_STABLE
    pool_counters: bool = since(35)  # 1.35+: counters belong to the pool, before to the slice
    # not in 1.34: without the gate slices with counters are as if not there
    counters_need_gate: bool = ~only(34)
    counters_taken_once: bool = ~bug("k8s-134103")  # shares of one device take its counters once
    # of a device in use, though the first share of it has paid
    shares_without_capacity_pay: bool = bug("k8s-140437")
    # 1.35 and 1.36: slices with counters count for nodes that they are not for
    counters_everywhere: bool = since(35) & until(36)
    counters_by_pool_name: bool = bug("k8s-140435")  # pools of the same name and other drivers share counters
    # 1.34+: what the search has taken is added up, before it was looked for each time
    running_counters: bool = since(34)
    leaves_behind: bool = bug("k8s-140431")  # what a refused device has taken so far is not given back
    # not in the stable one: shared devices of earlier cycles count
    shared_devices_use_counters: bool = _NOT_STABLE & ~bug("k8s-139211")
    # The implementation knows consumable capacity and binding conditions: it refuses capacity requests if the
    # gate is off; distinctAttribute, `device.allowMultipleAllocations` and bindsToNode it has in any case.
    knows_sharing: bool = choose(since(36), _NOT_STABLE, _EXPERIMENTAL)
    # The n-th device of a request must leave what the n-th device of its slice has, too.
    capacity_by_number: bool = gate("DRAConsumableCapacity") & bug("k8s-133706")
    distinct_by_value: bool = ~bug("k8s-135022")  # else identities are compared
    distinct_remembers_all: bool = since(37)  # 1.37+; before only the last device of each request
    common_values_restored: bool = ~bug("k8s-140325")  # matchAttribute with lists, on stepping back
    # one entry per class, which names its requests; else one per request, for all
    class_config_once: bool = ~bug("k8s-134793")
    repeated_config: bool = bug("k8s-139730")  # one entry of a claim config per request that it names
    unnamed_config: bool = since(37)  # 1.37+: no names where they are all
    # 1.37+: CEL runtime errors name the device, and say what to do (136709)
    device_in_errors: bool = since(37)
    # A request for all devices fails if one of them is used up, else it does without that device.
    all_even_if_used_up: bool = ~bug("k8s-140769")
    # 1.37+: an amount that was rounded up has the format of the step, and one beyond 64 bits is an error.
    exact_rounding: bool = since(37)
    # a DeviceTaintRule without a selector taints every device
    taints_all_unselected: bool = bug("k8s-141620")
    # A device of which claims have shares is free as a whole once it is not shareable.
    shares_overlooked: bool = bug("k8s-140798")
    totals_forget_shares: bool = bug("k8s-136734")  # without capacity: for scores such devices count as free
    cel: DeviceFeatures = made(
        DeviceFeatures,
        consumable_capacity=gate("DRAConsumableCapacity"),
        list_attributes=gate("DRAListTypeAttributes"),
        stored=True,
        minor=MINOR,
        lists_ungated=fixed("k8s-139395"),
    )

"""The features of the search for devices."""

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
    """Upstream's allocators since 1.34, of which the first that supports all enabled features is used."""

    STABLE = 0
    INCUBATING = 1
    EXPERIMENTAL = 2


_ADMIN_ACCESS = gate("DRAAdminAccess") | until(31)  # the field came before its gate
_BINDING_CONDITIONS = gate("DRADeviceBindingConditions") & gate("DRAResourceClaimDeviceStatus")
_LISTS = gate("DRAListTypeAttributes") & ~bug("k8s-139332")
_DEVICE_STATUS = only(34) & gate("DRAResourceClaimDeviceStatus")  # alone takes the newest allocator (133967)

# Each step of features needs a newer allocator; since 1.36 the oldest one has the first step, too.
_FIRST_STEP = (
    _ADMIN_ACCESS | gate("DRAPrioritizedList") | gate("DRAPartitionableDevices") | gate("DRADeviceTaints")
)
_SECOND_STEP = gate("DRAConsumableCapacity") | _BINDING_CONDITIONS | _DEVICE_STATUS
_THIRD_STEP = _LISTS | gate("DRAFractionalCapacityRange") | gate("DRAOptionalNodeOperations")
_EXPERIMENTAL = since(34) & (_THIRD_STEP | (until(35) & _SECOND_STEP))
_NOT_STABLE = since(34) & (_THIRD_STEP | _SECOND_STEP | (until(35) & _FIRST_STEP))


class AllocatorGates(FeatureTable):
    """The gates that allocators read."""

    admin_access: bool = _ADMIN_ACCESS
    prioritized_list: bool = gate("DRAPrioritizedList")
    partitionable_devices: bool = gate("DRAPartitionableDevices")
    device_taints: bool = gate("DRADeviceTaints")
    consumable_capacity: bool = gate("DRAConsumableCapacity")
    binding_conditions: bool = _BINDING_CONDITIONS  # of devices in the status of claims
    list_attributes: bool = _LISTS
    fractional_ranges: bool = gate("DRAFractionalCapacityRange")
    optional_node_operations: bool = gate("DRAOptionalNodeOperations")


class AllocatorFeatures(FeatureTable):
    """All features of the search for devices."""

    gates: AllocatorGates = part(AllocatorGates)
    implementation: Implementation = choose(
        _EXPERIMENTAL,
        Implementation.EXPERIMENTAL,
        choose(_NOT_STABLE, Implementation.INCUBATING, Implementation.STABLE),
    )
    knows_partitions: bool = since(33)  # the API has counters, alternatives and tolerations
    knows_binding: bool = since(34)  # the API has binding conditions

    # Pools
    # Completeness and validity are judged over all slices of a pool, also those for other nodes;
    # an incomplete pool is not used at all; an invalid one is an error if nothing else fits.
    whole_pools: bool = since(35)
    overlooks_other_slices: bool = bug("k8s-134466")  # a pool with slices for other nodes looks incomplete
    duplicate_devices_invalid: bool = since(32)  # a pool with two devices of the same name
    invalid_pools_fail: bool = until(34)  # a search that comes to an invalid pool ends there

    # Requests for all devices (allocationMode All)
    empty_all_fails: bool = ~bug("k8s-129560")  # there must be at least one device
    # They get free devices of any class; if a later request finds nothing, the search ends with an error.
    all_overlook_class: bool = bug("k8s-127565")
    all_devices_kept: bool = bug("k8s-131660")  # their devices stay taken when the search steps back
    # A pool that is incomplete or invalid ends the search on all nodes, not on its own.
    all_ends_attempt: bool = bug("k8s-141898")
    all_devices_or_none: bool = until(32)  # the search ends if one of the devices is not available

    counts_devices_twice: bool = bug("k8s-131662")  # a request's devices count twice against a claim's limit
    # A request for all devices panics at a device with counters.
    all_counted_panics: bool = _NOT_STABLE & bug("k8s-138885")
    admin_once_per_claim: bool = ~bug("k8s-131299")  # adminAccess: a claim gets no device twice

    # Taints
    every_taint_prevents: bool = until(34)  # also taints with an effect other than NoSchedule and NoExecute
    tolerations_in_results: bool = ~bug("k8s-134479")  # results in a claim's status have the tolerations

    # Order
    # The slices of a pool are searched by name, except by the stable allocator, unless no gate is on (by
    # recordings). Else, and for pools, there is no order (here: that of their names).
    sorted_slices: bool = since(36) & (_NOT_STABLE | ~(_FIRST_STEP | _SECOND_STEP | _THIRD_STEP))
    # What is known of one alternative is used for another, and after its first device a request for all
    # devices continues with the first alternative.
    alternatives_mixed: bool = bug("k8s-137347")
    binding_pools_last: bool = choose(since(36), _NOT_STABLE, _EXPERIMENTAL)  # those with binding conditions
    combinations: bool = since(36) & _NOT_STABLE  # within a request only later devices are tried

    # Counters of partitionable devices
    pool_counters: bool = since(35)  # they belong to the pool, else to the slice
    counters_need_gate: bool = ~only(34)  # with the gate off, devices that use counters are not available
    counters_taken_once: bool = ~bug("k8s-134103")  # shares of one device use its counters once
    # Shares without consumed capacity use the counters again.
    shares_without_capacity_pay: bool = bug("k8s-140437")
    counters_everywhere: bool = since(35) & until(36)  # slices with counters count on nodes they are not for
    counters_by_pool_name: bool = bug("k8s-140435")  # pools of one name share counters across drivers
    running_counters: bool = since(34)  # used counters are added up, else computed for each device
    keeps_refused_counters: bool = bug("k8s-140431")  # counters of a refused device stay taken
    # Shared devices that were allocated in earlier cycles use counters.
    shared_devices_use_counters: bool = _NOT_STABLE & ~bug("k8s-139211")

    # Consumable capacity and attributes
    # The allocator has consumable capacity and binding conditions: it refuses capacity requests if the gate
    # is off; distinctAttribute, `device.allowMultipleAllocations` and bindsToNode it has in any case.
    knows_sharing: bool = choose(since(36), _NOT_STABLE, _EXPERIMENTAL)
    # The n-th device of a request must also have the capacity that the n-th device of its slice lacks.
    capacity_by_number: bool = gate("DRAConsumableCapacity") & bug("k8s-133706")
    distinct_by_value: bool = ~bug("k8s-135022")  # distinctAttribute compares values, else identities
    distinct_remembers_all: bool = since(37)  # with all devices of each request, else the last one
    common_values_restored: bool = ~bug("k8s-140325")  # matchAttribute with lists, when the search steps back

    # Configuration in the status of a claim
    class_config_once: bool = ~bug("k8s-134793")  # one entry per class, for its requests; else for all
    repeated_config: bool = bug("k8s-139730")  # an entry of the claim is repeated for each request it names
    unnamed_config: bool = since(37)  # an entry for all requests names none

    device_in_errors: bool = since(37)  # CEL runtime errors name the device, with a hint (136709)
    all_even_if_used_up: bool = ~bug("k8s-140769")  # allocationMode All fails if one device is used up
    exact_rounding: bool = since(37)  # rounded amounts have the step's format; beyond 64 bits is an error
    taints_all_unselected: bool = bug("k8s-141620")  # DeviceTaintRules without a selector taint every device
    # A device with allocated shares counts as free once it does not allow several allocations any more.
    shares_overlooked: bool = bug("k8s-140798")
    totals_forget_shares: bool = bug("k8s-136734")  # scores: devices with shares without capacity are free
    cel: DeviceFeatures = made(
        DeviceFeatures,
        consumable_capacity=gate("DRAConsumableCapacity"),
        list_attributes=gate("DRAListTypeAttributes"),
        stored=True,
        minor=MINOR,
        lists_ungated=fixed("k8s-139395"),
    )

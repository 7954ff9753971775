"""The differences between releases and gates in the search."""

from dataclasses import dataclass
from enum import IntEnum

from kubeskew.apimachinery.cel.device_features import DeviceFeatures
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version

_LISTS = "DRAListTypeAttributes"


class Implementation(IntEnum):
    """Upstream has three allocators since 1.34; the first that supports all enabled features is used."""

    STABLE = 0
    INCUBATING = 1
    EXPERIMENTAL = 2


@dataclass(frozen=True, slots=True)
class AllocatorGates:
    """The gates that the allocator looks at."""

    admin_access: bool
    prioritized_list: bool
    partitionable_devices: bool
    device_taints: bool
    consumable_capacity: bool
    binding_conditions: bool  # both gates: conditions are written to the status of devices
    list_attributes: bool
    fractional_ranges: bool
    optional_node_operations: bool
    device_status: bool  # in 1.34 this gate alone chose the newest implementation (kubernetes 133967)

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "AllocatorGates":
        binding, status = "DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"
        return cls(
            admin_access=gates.enabled("DRAAdminAccess") or version.minor <= 31,  # a field without a gate
            prioritized_list=gates.enabled("DRAPrioritizedList"),
            partitionable_devices=gates.enabled("DRAPartitionableDevices"),
            device_taints=gates.enabled("DRADeviceTaints"),
            consumable_capacity=gates.enabled("DRAConsumableCapacity"),
            binding_conditions=gates.enabled(binding) and gates.enabled(status),
            list_attributes=gates.enabled(_LISTS) and not gates.bugs.present("k8s-139332"),
            fractional_ranges=gates.enabled("DRAFractionalCapacityRange"),
            optional_node_operations=gates.enabled("DRAOptionalNodeOperations"),
            device_status=version.minor == 34 and gates.enabled(status),
        )

    @property
    def none(self) -> bool:
        """Returns whether no gate is on."""
        return not any(getattr(self, name) for name in self.__slots__)

    def implementation(self, minor: int) -> Implementation:
        basic = self.admin_access or self.prioritized_list or self.partitionable_devices or self.device_taints
        shared = self.consumable_capacity or self.binding_conditions or self.device_status
        newest = self.list_attributes or self.fractional_ranges or self.optional_node_operations
        if minor <= 33:  # the only implementation then
            return Implementation.STABLE
        level = 3 if newest else 2 if shared else 1 if basic else 0
        return Implementation(min(level, 2) if minor <= 35 else max(level - 1, 0))


@dataclass(frozen=True, slots=True)
class AllocatorFeatures:
    """Named decisions; the search asks for no version and no gate."""

    gates: AllocatorGates
    implementation: Implementation
    knows_partitions: bool  # 1.33+: counters, alternatives and tolerations are fields of the API
    knows_binding: bool  # 1.34+: so are binding conditions
    # 1.35+: completeness and validity are judged over all slices of a pool, also those for other nodes;
    # an incomplete pool is not used at all; an invalid one is an error if nothing else fits.
    whole_pools: bool
    overlooks_other_slices: bool  # of a pool, those for other nodes: the pool looks incomplete
    duplicate_devices_invalid: bool  # 1.32+
    invalid_pools_fail: bool  # up to 1.34: a search that comes to an invalid pool ends there
    empty_all_fails: bool  # a request for all devices fails if there are none
    # A request for all devices gets those of any class, without those in use; where what comes after it finds
    # nothing, the search ends with an error.
    all_overlook_class: bool
    all_devices_kept: bool  # the devices of a request for all stay taken when the search steps back
    # A pool that is incomplete or invalid ends the search for such a request on all nodes, not on its own.
    all_ends_attempt: bool
    all_devices_or_none: bool  # up to 1.32 the search ends if one of them cannot be had
    counts_devices_twice: bool  # those that a request has already count against the limit of a claim again
    all_counted_panics: bool  # a request for all devices that comes to one with counters; not the stable one
    admin_once_per_claim: bool  # with admin access a claim does not get the same device twice
    every_taint_prevents: bool  # up to 1.34, whatever its effect
    tolerations_in_results: bool
    # 1.36+: the slices of a pool are searched by name; the stable one takes them as they come, except in
    # recordings with no gate on. Before, and for pools, there is no order (here: that of their names).
    sorted_slices: bool
    # What is known of one alternative is taken for another, and after one device a request for all goes on
    # with the first alternative.
    alternatives_mixed: bool
    binding_pools_last: bool  # pools with binding conditions are a last resort
    combinations: bool  # 1.36+, not the stable one: within a request only later devices are tried
    pool_counters: bool  # 1.35+: counters belong to the pool, before to the slice
    counters_need_gate: bool  # not in 1.34: without the gate slices with counters are as if not there
    counters_taken_once: bool  # shares of one device take its counters once
    shares_without_capacity_pay: bool  # of a device in use, though the first share of it has paid
    counters_everywhere: bool  # 1.35 and 1.36: slices with counters count for nodes that they are not for
    counters_by_pool_name: bool  # pools of the same name and other drivers share counters
    running_counters: bool  # 1.34+: what the search has taken is added up, before it was looked for each time
    leaves_behind: bool  # what a refused device has taken so far is not given back
    shared_devices_use_counters: bool  # not in the stable one: shared devices of earlier cycles count
    # The implementation knows consumable capacity and binding conditions: it refuses capacity requests if the
    # gate is off; distinctAttribute, `device.allowMultipleAllocations` and bindsToNode it has in any case.
    knows_sharing: bool
    # The n-th device of a request must leave what the n-th device of its slice has, too.
    capacity_by_number: bool
    distinct_by_value: bool  # else identities are compared
    distinct_remembers_all: bool  # 1.37+; before only the last device of each request
    common_values_restored: bool  # matchAttribute with lists, on stepping back
    class_config_once: bool  # one entry per class, which names its requests; else one per request, for all
    repeated_config: bool  # one entry of a claim config per request that it names
    unnamed_config: bool  # 1.37+: no names where they are all
    device_in_errors: bool  # 1.37+: CEL runtime errors name the device, and say what to do (136709)
    # A request for all devices fails if one of them is used up, else it does without that device.
    all_even_if_used_up: bool
    # 1.37+: an amount that was rounded up has the format of the step, and one beyond 64 bits is an error.
    exact_rounding: bool
    taints_all_unselected: bool  # a DeviceTaintRule without a selector taints every device
    shares_overlooked: (
        bool  # a device of which claims have shares is free as a whole once it is not shareable
    )
    totals_forget_shares: bool  # without capacity: for scores such devices count as free
    cel: DeviceFeatures

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "AllocatorFeatures":
        minor = version.minor
        allocator_gates = AllocatorGates.of(version, gates)
        implementation = allocator_gates.implementation(minor)
        newer = implementation is not Implementation.STABLE
        newest = implementation is Implementation.EXPERIMENTAL
        return cls(
            gates=allocator_gates,
            implementation=implementation,
            knows_partitions=minor >= 33,
            knows_binding=minor >= 34,
            whole_pools=minor >= 35,
            overlooks_other_slices=gates.bugs.present("k8s-134466"),
            duplicate_devices_invalid=minor >= 32,
            invalid_pools_fail=minor <= 34,
            empty_all_fails=not gates.bugs.present("k8s-129560"),
            all_overlook_class=gates.bugs.present("k8s-127565"),
            all_devices_kept=gates.bugs.present("k8s-131660"),
            all_ends_attempt=gates.bugs.present("k8s-141898"),
            all_devices_or_none=minor <= 32,
            counts_devices_twice=gates.bugs.present("k8s-131662"),
            all_counted_panics=newer and gates.bugs.present("k8s-138885"),
            admin_once_per_claim=not gates.bugs.present("k8s-131299"),
            every_taint_prevents=minor <= 34,
            tolerations_in_results=not gates.bugs.present("k8s-134479"),
            alternatives_mixed=gates.bugs.present("k8s-137347"),
            sorted_slices=minor >= 36 and (newer or allocator_gates.none),
            binding_pools_last=newer if minor >= 36 else newest,
            combinations=minor >= 36 and newer,
            pool_counters=minor >= 35,
            counters_need_gate=minor != 34,
            counters_taken_once=not gates.bugs.present("k8s-134103"),
            shares_without_capacity_pay=gates.bugs.present("k8s-140437"),
            counters_everywhere=35 <= minor <= 36,
            counters_by_pool_name=gates.bugs.present("k8s-140435"),
            running_counters=minor >= 34,
            leaves_behind=gates.bugs.present("k8s-140431"),
            shared_devices_use_counters=newer and not gates.bugs.present("k8s-139211"),
            knows_sharing=newer if minor >= 36 else newest,
            capacity_by_number=allocator_gates.consumable_capacity and gates.bugs.present("k8s-133706"),
            distinct_by_value=not gates.bugs.present("k8s-135022"),
            distinct_remembers_all=minor >= 37,
            common_values_restored=not gates.bugs.present("k8s-140325"),
            class_config_once=not gates.bugs.present("k8s-134793"),
            repeated_config=gates.bugs.present("k8s-139730"),
            unnamed_config=minor >= 37,
            device_in_errors=minor >= 37,
            all_even_if_used_up=not gates.bugs.present("k8s-140769"),
            exact_rounding=minor >= 37,
            taints_all_unselected=gates.bugs.present("k8s-141620"),
            shares_overlooked=gates.bugs.present("k8s-140798"),
            totals_forget_shares=gates.bugs.present("k8s-136734"),
            cel=DeviceFeatures(
                consumable_capacity=allocator_gates.consumable_capacity,
                list_attributes=gates.enabled(_LISTS),
                stored=True,
                minor=minor,
                lists_ungated=gates.bugs.mended("k8s-139395"),
            ),
        )

"""Decides what differs between releases and gates in devices, claims and slices: a part of features.py."""

from dataclasses import dataclass

from kubeskew.apimachinery.cel.device_features import DeviceFeatures
from kubeskew.apiserver.feature_fields import (
    decided,
    gate,
    known_bug,
    of_minor,
    preview,
    repaired,
    since,
    until,
)


@dataclass(frozen=True, slots=True, eq=False)
class DRAFeatures:
    """Holds the decisions about resource.k8s.io.

    Source: pkg/apis/resource/validation/validation.go, 1.31 to 1.37. Since 1.35 the hand-written rules say
    what the declarative ones say (in which minor each of those texts changed is from memory).
    """

    consumable_capacity: bool = gate("DRAConsumableCapacity")
    list_attributes: bool = gate("DRAListTypeAttributes")
    lists_ungated: bool = repaired("k8s-139395")
    prices_unsized: bool = known_bug("k8s-129661")  # selectors, as if attributes could be of any size
    fractional_capacity: bool = gate("DRAFractionalCapacityRange")
    partition_types: bool = gate("DRAPartitionableDevicesType")
    granular_status: bool = gate("DRAResourceClaimGranularStatusAuthorization")
    # Fields that are kept though their gate is off: tolerations of requests, the attribute in which devices
    # have to differ, conditions that binding waits for.
    keeps_tolerations: bool = known_bug("k8s-132927")
    keeps_distinct_attribute: bool = known_bug("k8s-134962")
    any_label_values: bool = known_bug("k8s-128932")  # in selectors of nodes
    several_device_terms: bool = known_bug("k8s-141212")  # selectors of a device's nodes may have them
    semantic_parameters: bool = preview("kep4381")  # instead of structured ones, under the same name
    expressions: int = decided(lambda gates: gates.version.minor)  # the release of CEL for selectors

    status_keeps_metadata: bool = repaired("k8s-123730")  # of claims and of pods' scheduling
    status_resets_metadata: bool = since(35)  # who writes a claim's status owns no metadata by it

    # The field of an exact request in paths, empty where it is the request itself.
    exactly: str = of_minor({0: "", 33: "exactly"})
    # The field that holds a device's fields in paths, empty where it is the device itself.
    wrapper: str = of_minor({0: "basic", 33: ""})
    alternatives: bool = since(33)  # a request without a class may have them
    admin_access_default: bool = decided(lambda gates: gates.version.minor == 31)  # written as false
    checks_deallocation: bool = decided(lambda gates: gates.version.minor == 31)
    # A namespace needs the label for administrator access (KEP-5018).
    checks_admin_label: bool = since(33)
    admin_label: str = of_minor(
        {0: "resource.k8s.io/admin-access", 34: "resource.kubernetes.io/admin-access"}
    )

    current_wording: bool = since(32)  # "domain" instead of "prefix", bytes instead of nothing, too many told
    limits_sizes: bool = since(32)  # expressions have a length and a cost, parameters a size
    max_reserved: int = of_minor({0: 32, 32: 256})
    node_pointers: bool = since(33)  # an empty node name was no name before
    canonical_addresses: bool = repaired("k8s-129219")  # network addresses are written in one way alone
    slice_warnings: bool = since(34)
    # A list over its limit is told alone, a repeat at the item, a bad part of a name as Invalid; fewer
    # devices with taints or counters fit into a slice.
    declarative_validation: bool = since(35)
    revalidates_on_update: bool = until(34)  # an update checks all as new, also what it cannot change
    effects: tuple[str, ...] = of_minor(  # of taints, sorted
        {0: ("NoExecute", "NoSchedule"), 35: ("NoExecute", "NoSchedule", "None")}
    )
    max_taints: int = of_minor({0: 4, 35: 16})
    object_text: str = of_minor(  # of parameters that are no JSON object
        {0: "parameters must be a valid JSON object", 35: "must be a valid JSON object"}
    )
    attribute_lists: bool = since(36)  # attributes may be lists: they count, and show in texts
    rule_times: bool = since(36)  # a taint rule's time moves on when its taint changes
    keys_at_map: bool = since(37)  # the error of a bad key of a map is at the map, not at the key
    trusts_stored: bool = since(37)  # expressions that were accepted before are not compiled again
    capacity_ratchets: bool = since(37)  # a device's unchanged capacity is not checked again
    zero_step_panics: bool = known_bug("k8s-139698")  # of a capacity's range
    policy_bounds: bool = since(37)  # the error of a default outside of its range is at the default
    # Selectable fields of slices: the pool's name since 1.37; without a spec other names.
    slice_labels: tuple[str, ...] = of_minor(
        {
            0: ("nodeName", "driverName"),
            31: ("spec.nodeName", "spec.driver"),
            37: ("spec.nodeName", "spec.driver", "spec.pool.name"),
        }
    )

    def selectors(self, *, stored: bool) -> DeviceFeatures:
        """Returns the features that expressions of selectors may use; `stored`: they were accepted before."""
        return DeviceFeatures(
            consumable_capacity=self.consumable_capacity,
            list_attributes=self.list_attributes,
            stored=stored,
            minor=self.expressions,
            lists_ungated=self.lists_ungated,
            unsized=self.prices_unsized,
        )

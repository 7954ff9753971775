"""Decides what differs between releases and gates in devices, claims and slices: a part of features.py."""

from kubeskew.apimachinery.cel.device_features import DeviceFeatures
from kubeskew.apimachinery.features import (
    MINOR,
    FeatureTable,
    bug,
    by_release,
    choose,
    fixed,
    gate,
    made,
    only,
    preview,
    since,
    until,
)
from kubeskew.apimachinery.golang.device_structs import DeviceStructs, device_structs


class DRAFeatures(FeatureTable):
    """Holds the decisions about resource.k8s.io.

    Source: pkg/apis/resource/validation/validation.go, 1.31 to 1.37. Since 1.35 the hand-written rules say
    what the declarative ones say (in which minor each of those texts changed is from memory).
    """

    condition_texts: bool = until(33)  # errors of conditions say that what is missing must be set
    consumable_capacity: bool = gate("DRAConsumableCapacity")
    list_attributes: bool = gate("DRAListTypeAttributes")
    lists_ungated: bool = fixed("k8s-139395")
    prices_unsized: bool = bug("k8s-129661")  # selectors, as if attributes could be of any size
    fractional_capacity: bool = gate("DRAFractionalCapacityRange")
    partition_types: bool = gate("DRAPartitionableDevicesType")
    granular_status: bool = gate("DRAResourceClaimGranularStatusAuthorization")
    # Fields that are kept though their gate is off: tolerations of requests, the attribute in which devices
    # have to differ.
    keeps_tolerations: bool = bug("k8s-132927")
    keeps_distinct_attribute: bool = bug("k8s-134962")
    any_label_values: bool = bug("k8s-128932")  # in selectors of nodes
    several_device_terms: bool = bug("k8s-141212")  # selectors of a device's nodes may have them
    semantic_parameters: bool = preview("kep4381")  # instead of structured ones, under the same name
    expressions: int = MINOR  # the release of CEL for selectors

    status_keeps_metadata: bool = fixed("k8s-123730")  # of claims and of pods' scheduling
    status_resets_metadata: bool = since(35)  # who writes a claim's status owns no metadata by it

    # The field of an exact request in paths, empty where it is the request itself.
    exactly: str = by_release({0: "", 33: "exactly"})
    # The field that holds a device's fields in paths, empty where it is the device itself.
    wrapper: str = by_release({0: "basic", 33: ""})
    checks_several_kinds: bool = until(34)  # a request that is exact and has alternatives: both are checked
    alternatives: bool = since(33)  # a request without a class may have them
    admin_access_default: bool = only(31)  # written as false
    checks_deallocation: bool = only(31)
    # A namespace needs the label for administrator access (KEP-5018).
    checks_admin_label: bool = since(33)
    admin_label: str = by_release(
        {0: "resource.k8s.io/admin-access", 34: "resource.kubernetes.io/admin-access"}
    )

    identifiers_are_types: bool = until(33)  # the reason of a malformed one is FieldValueTypeInvalid
    current_wording: bool = since(32)  # "domain" instead of "prefix", bytes instead of nothing, too many told
    limits_sizes: bool = since(32)  # expressions have a length and a cost, parameters a size
    max_reserved: int = choose(fixed("k8s-129543"), 256, 32)
    node_pointers: bool = since(33)  # an empty node name was no name before
    canonical_addresses: bool = fixed("k8s-129219")  # network addresses are written in one way alone
    slice_warnings: bool = since(34)
    structs: DeviceStructs = made(device_structs, MINOR)
    # The id of a device in errors: as text, as a struct whose fields JSON does not show, as a struct.
    device_ids: str = by_release({0: "text", 34: "hidden", 35: "struct"})
    # A list over its limit is told alone, a repeat at the item, a bad part of a name as Invalid; fewer
    # devices with taints or counters fit into a slice.
    declarative_validation: bool = since(35)
    revalidates_on_update: bool = until(34)  # an update checks all as new, also what it cannot change
    effects: tuple[str, ...] = by_release(  # of taints, sorted
        {0: ("NoExecute", "NoSchedule"), 35: ("NoExecute", "NoSchedule", "None")}
    )
    max_taints: int = by_release({0: 4, 35: 16})
    object_text: str = by_release(  # of parameters that are no JSON object
        {0: "parameters must be a valid JSON object", 34: "must be a valid JSON object"}
    )
    attribute_lists: bool = since(36)  # attributes may be lists: they count, and show in texts
    rule_times: bool = since(36)  # a taint rule's time moves on when its taint changes
    # The error of a bad key of a map is at the map, not at the key.
    keys_at_map: bool = only(31) | since(36)
    trusts_stored: bool = since(37)  # expressions that were accepted before are not compiled again
    capacity_ratchets: bool = since(37)  # a device's unchanged capacity is not checked again
    zero_step_panics: bool = bug("k8s-139698")  # of a capacity's range
    policy_bounds: bool = since(37)  # the error of a default outside of its range is at the default
    # Selectable fields of slices: the pool's name since 1.37; without a spec other names.
    slice_labels: tuple[str, ...] = by_release(
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

"""The features of devices, claims and slices in the API server: a part of features.py."""

from kubeskew.apimachinery.cel.device_features import DeviceFeatures
from kubeskew.apimachinery.features import (
    MINOR,
    VERSION,
    FeatureTable,
    bug,
    by_release,
    choose,
    fixed,
    gate,
    made,
    only,
    since,
    until,
)
from kubeskew.apimachinery.golang.device_structs import DeviceStructs, device_structs


class DRAFeatures(FeatureTable):
    """The rules of resource.k8s.io: device classes, claims, slices and taint rules.

    Source: pkg/apis/resource/validation/validation.go, 1.31 to 1.37. Since 1.35 the hand-written rules say
    what the declarative ones say.
    """

    condition_texts: bool = until(33)  # errors of missing fields of conditions: "must be set"
    consumable_capacity: bool = gate("DRAConsumableCapacity")
    list_attributes: bool = gate("DRAListTypeAttributes")
    lists_ungated: bool = fixed("k8s-139395")  # stored selectors may read lists though that gate is off
    prices_unsized: bool = bug("k8s-129661")  # costs of selectors: as if attributes could have any size
    fractional_capacity: bool = gate("DRAFractionalCapacityRange")
    partition_types: bool = gate("DRAPartitionableDevicesType")  # in the status of a pool
    # Writing a claim's status takes permissions of its own for bindings and drivers.
    granular_status: bool = gate("DRAResourceClaimGranularStatusAuthorization")
    keeps_tolerations: bool = bug("k8s-132927")  # tolerations of requests, though their gate is off
    keeps_distinct_attribute: bool = bug("k8s-134962")  # distinctAttribute, though its gate is off
    any_label_values: bool = bug("k8s-128932")  # node selectors may have values that no label can have
    several_device_terms: bool = bug("k8s-141212")  # the node selector of a device may have several terms
    expressions: int = MINOR  # the release of CEL for selectors

    # Metadata in updates of the status
    status_keeps_metadata: bool = fixed("k8s-123730")  # of claims and PodSchedulingContexts
    status_resets_metadata: bool = since(35)  # a manager of a claim's status owns no metadata

    # Requests and claims
    # The field of an exact request in paths, empty where it is the request itself.
    exactly: str = by_release({0: "", 33: "exactly"})
    # The field that holds a device's fields in paths, empty where it is the device itself.
    wrapper: str = by_release({0: "basic", 33: ""})
    checks_several_kinds: bool = until(34)  # a request with `exactly` and alternatives: both are validated
    alternatives: bool = since(33)  # a request without a class may have alternatives (firstAvailable)
    admin_access_default: bool = only(31)  # adminAccess: false is written
    checks_deallocation: bool = only(31)  # status.deallocationRequested
    # Administrator access takes a label of the namespace (KEP-5018).
    checks_admin_label: bool = since(33)
    admin_label: str = by_release(
        {0: "resource.k8s.io/admin-access", 34: "resource.kubernetes.io/admin-access"}
    )

    # Names, limits and texts
    identifiers_are_types: bool = until(33)  # errors of malformed identifiers: FieldValueTypeInvalid
    current_wording: bool = since(32)  # "domain", not "prefix"; limits in bytes; FieldValueTooMany for lists
    limits_sizes: bool = since(32)  # expressions have a length and a cost, parameters a size
    max_reserved: int = choose(fixed("k8s-129543"), 256, 32)  # users of a claim
    node_pointers: bool = since(33)  # an empty node name is an error, not an absent one
    canonical_addresses: bool = fixed("k8s-129219")  # of the network data of a claim's devices
    slice_warnings: bool = since(34)
    structs: DeviceStructs = made(device_structs, VERSION)  # Go structs, as errors print them
    # The id of a device in errors: as text, as a struct whose fields JSON does not show, as a struct.
    device_ids: str = by_release({0: "text", 34: "hidden", 35: "struct"})
    # A list over its limit has no further errors, a duplicate's error is at the item, a bad part of a name is
    # Invalid, and a slice takes fewer devices if some have taints or counters.
    declarative_validation: bool = since(35)
    revalidates_on_update: bool = until(34)  # an update validates the whole object as a new one
    effects: tuple[str, ...] = by_release(  # of taints, sorted
        {0: ("NoExecute", "NoSchedule"), 35: ("NoExecute", "NoSchedule", "None")}
    )
    max_taints: int = by_release({0: 4, 35: 16})
    object_text: str = by_release(  # of parameters that are no JSON object
        {0: "parameters must be a valid JSON object", 34: "must be a valid JSON object"}
    )

    # Devices and slices
    attribute_lists: bool = since(36)  # attributes may be lists, which count against limits
    rule_times: bool = since(36)  # a DeviceTaintRule's timeAdded changes with its taint
    keys_at_map: bool = only(31) | since(36)  # errors of bad keys are at the map, not at the key
    trusts_stored: bool = since(37)  # expressions in stored objects are not compiled again
    capacity_ratchets: bool = since(37)  # a device's unchanged capacity is not validated again
    zero_step_panics: bool = bug("k8s-139698")  # a step of 0 in a capacity's range
    policy_bounds: bool = since(37)  # errors of a default outside of its range are at the default
    # The selectable fields of slices.
    slice_labels: tuple[str, ...] = by_release(
        {
            0: ("nodeName", "driverName"),
            31: ("spec.nodeName", "spec.driver"),
            37: ("spec.nodeName", "spec.driver", "spec.pool.name"),
        }
    )

    def selectors(self, *, stored: bool) -> DeviceFeatures:
        """The CEL features that selectors may use; `stored`: of expressions that were accepted before."""
        return DeviceFeatures(
            consumable_capacity=self.consumable_capacity,
            list_attributes=self.list_attributes,
            stored=stored,
            minor=self.expressions,
            lists_ungated=self.lists_ungated,
            unsized=self.prices_unsized,
        )

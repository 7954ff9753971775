"""How the search differs between releases and gates."""

from dataclasses import dataclass

from apimachinery.cel.device_features import DeviceFeatures
from apimachinery.gates import FeatureGates
from apimachinery.versions import Version


@dataclass(frozen=True, slots=True)
class AllocatorRules:
    """Named decisions; the search asks for no version and no gate."""

    admin_access: bool
    per_device_nodes: bool  # DRAPartitionableDevices: a slice may leave the choice of nodes to its devices
    # 1.35+: completeness and validity are judged over all slices of a pool, also those for other nodes;
    # an incomplete pool is not used at all; an invalid one is an error if nothing else fits.
    whole_pools: bool
    duplicate_devices_invalid: bool  # 1.32+
    empty_all_fails: bool  # 1.33+: a request for all devices fails if there are none
    class_config_once: bool  # 1.33.6+, 1.34.2+: one entry per class that names its requests
    claim_config_once: bool  # 1.37+: one entry per claim config, however many requests it names
    cel: DeviceFeatures

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "AllocatorRules":
        minor = version.minor
        return cls(
            admin_access=gates.enabled("DRAAdminAccess") or minor <= 31,  # 1.31 had the field without a gate
            per_device_nodes=gates.enabled("DRAPartitionableDevices"),
            whole_pools=minor >= 35,
            duplicate_devices_invalid=minor >= 32,
            empty_all_fails=minor >= 33,
            class_config_once=minor >= 33,
            claim_config_once=minor >= 37,
            cel=DeviceFeatures(
                consumable_capacity=gates.enabled("DRAConsumableCapacity"),
                list_attributes=gates.enabled("DRAListTypeAttributes"),
                stored=True,
            ),
        )

"""The differences between releases and gates in what the status of a pool says."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version

_DEVICES_SINCE = 37


@dataclass(frozen=True, slots=True)
class PoolStatusFeatures:
    """Named decisions of the controller of pool status requests, of one release and one set of gates."""

    summaries: bool  # status has summaries of partitions and shareable devices
    counts_devices: bool  # those taken, each once, and those with taints; 1.36 counts entries of allocations
    device_taint_rules: bool

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "PoolStatusFeatures":
        since = version.minor >= _DEVICES_SINCE
        return cls(
            summaries=since,
            counts_devices=since,
            device_taint_rules=since and gates.enabled("DRADeviceTaintRules"),
        )

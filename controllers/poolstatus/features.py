"""The differences between releases and gates in what the status of a pool says."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version

_SUMMARIES_SINCE = 37


@dataclass(frozen=True, slots=True)
class PoolStatusFeatures:
    """Named decisions of the controller of pool status requests, of one release and one set of gates."""

    summaries: bool  # status has summaries of partitions and shareable devices
    device_taint_rules: bool

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "PoolStatusFeatures":
        return cls(
            summaries=version.minor >= _SUMMARIES_SINCE,
            device_taint_rules=gates.enabled("DRADeviceTaintRules"),
        )

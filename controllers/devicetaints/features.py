"""The differences between releases and gates in whom device taints and their rules concern."""

from dataclasses import dataclass

from kubeskew.apimachinery.cel.device_features import DeviceFeatures
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version

_STATUS_SINCE = 35


@dataclass(frozen=True, slots=True)
class DeviceTaintFeatures:
    """Named decisions of the device taint eviction controller of one release and one set of gates."""

    pod_group_claims: bool  # groups of pods may hold reservations
    extended_claims: bool  # a pod's claim for extended resources counts, too
    rules: bool  # are read; up to 1.34 by the gate of taints alone
    rule_status: bool  # is written
    rules_name_classes: bool  # and selectors, and taints reach pods by the slices that have them
    cel: DeviceFeatures  # of the selectors of rules
    has_queue: bool  # of the usual kind, with metrics; up to 1.34 deletions of pods are timed by themselves

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "DeviceTaintFeatures":
        before = version.minor < _STATUS_SINCE
        return cls(
            pod_group_claims=gates.enabled("DRAWorkloadResourceClaims"),
            extended_claims=not gates.bugs.present("k8s-142289"),
            rules=before or gates.enabled("DRADeviceTaintRules"),
            rule_status=not before,
            rules_name_classes=before,
            has_queue=not before,
            cel=DeviceFeatures(
                consumable_capacity=gates.enabled("DRAConsumableCapacity"),
                stored=True,
                minor=version.minor,
                lists_ungated=gates.bugs.mended("k8s-139395"),
            ),
        )

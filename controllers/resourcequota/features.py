"""The differences between releases and gates in how quotas are counted."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.quota.claims import ADJUSTED_SINCE
from kubeskew.apimachinery.versions import Version


@dataclass(frozen=True, slots=True)
class QuotaFeatures:
    """Named decisions of the quota controller of one release and one set of gates."""

    counts_implicit_names: bool  # extended resources that claims stand for, by their device class

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "QuotaFeatures":
        return cls(
            counts_implicit_names=gates.enabled("DRAExtendedResource") and version.minor >= ADJUSTED_SINCE,
        )

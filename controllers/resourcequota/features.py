"""The features of the quota controller."""

from kubeskew.apimachinery.features import FeatureTable, gate, since


class QuotaFeatures(FeatureTable):
    """The usage that the controller computes, but for that of pods and claims (apimachinery/quota)."""

    # Implicit extended resources of device classes are counted.
    counts_implicit_names: bool = gate("DRAExtendedResource") & since(35)

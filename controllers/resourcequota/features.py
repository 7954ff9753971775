"""The differences between releases and gates in how quotas are counted."""

from kubeskew.apimachinery.features import FeatureTable, gate, since


class QuotaFeatures(FeatureTable):
    """Named decisions of the quota controller of one release and one set of gates."""

    # extended resources that claims stand for, by their device class
    counts_implicit_names: bool = gate("DRAExtendedResource") & since(35)

"""The differences between gates in how a namespace is emptied."""

from kubeskew.apimachinery.features import FeatureTable, gate


class NamespaceFeatures(FeatureTable):
    """Named decisions of the namespace controller of one set of gates."""

    ordered_deletion: bool = gate("OrderedNamespaceDeletion")  # pods go before everything else

"""The features of the namespace controller."""

from kubeskew.apimachinery.features import FeatureTable, gate


class NamespaceFeatures(FeatureTable):
    """The deletion of what is in a namespace."""

    ordered_deletion: bool = gate("OrderedNamespaceDeletion")  # pods before all other objects

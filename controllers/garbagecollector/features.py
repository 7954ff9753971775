"""The features of the garbage collector."""

from kubeskew.apimachinery.features import FeatureTable, fixed


class GarbageCollectorFeatures(FeatureTable):
    """The start of the garbage collector."""

    waits_for_all: bool = ~fixed("k8s-125796")  # nothing is collected while a resource cannot be listed

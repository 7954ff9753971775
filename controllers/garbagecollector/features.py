"""The differences between releases of the garbage collector."""

from kubeskew.apimachinery.features import FeatureTable, fixed


class GarbageCollectorFeatures(FeatureTable):
    """Named decisions of one release."""

    waits_for_all: bool = ~fixed("k8s-125796")  # nothing is collected while a resource cannot be listed

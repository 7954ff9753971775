"""The features of the disruption controller."""

from kubeskew.apimachinery.features import FeatureTable, bug


class DisruptionFeatures(FeatureTable):
    """The status of PodDisruptionBudgets."""

    # Conditions of other controllers, and the lastTransitionTime of its own, are lost in updates.
    forgets_conditions: bool = bug("k8s-122056")

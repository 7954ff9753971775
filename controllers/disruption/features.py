"""The differences between releases in what the status of disruption budgets says."""

from kubeskew.apimachinery.features import FeatureTable, bug


class DisruptionFeatures(FeatureTable):
    """Named decisions of the disruption controller."""

    forgets_conditions: bool = bug("k8s-122056")  # of others, and since when its own has been so

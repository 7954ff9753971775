"""The differences between releases in how long a node may be silent."""

from kubeskew.apimachinery.features import FeatureTable, choose, since

# Since 1.32 a node may be silent for longer, so that a lost lease renewal or two do not matter.


class NodeLifecycleFeatures(FeatureTable):
    """Named decisions of the node lifecycle controller of one release."""

    grace_seconds: float = choose(since(32), 50.0, 40.0)  # --node-monitor-grace-period

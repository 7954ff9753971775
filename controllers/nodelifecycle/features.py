"""The features of the node lifecycle controller."""

from kubeskew.apimachinery.features import FeatureTable, choose, since


class NodeLifecycleFeatures(FeatureTable):
    """The time after which a node without heartbeats is unhealthy."""

    grace_seconds: float = choose(since(32), 50.0, 40.0)  # the default of --node-monitor-grace-period

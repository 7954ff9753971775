"""The features of the controller of ResourcePoolStatusRequests."""

from kubeskew.apimachinery.features import FeatureTable, gate, since


class PoolStatusFeatures(FeatureTable):
    """The counts in the status of a pool of devices."""

    summaries: bool = since(37)  # of partitions and shareable devices
    # Allocated devices count once each, not once per allocation; tainted devices count as unavailable.
    counts_devices: bool = since(37)
    device_taint_rules: bool = since(37) & gate("DRADeviceTaintRules")  # their taints count, too

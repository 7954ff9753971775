"""The differences between releases and gates in what the status of a pool says."""

from kubeskew.apimachinery.features import FeatureTable, gate, since


class PoolStatusFeatures(FeatureTable):
    """Named decisions of the controller of pool status requests, of one release and one set of gates."""

    summaries: bool = since(37)  # status has summaries of partitions and shareable devices
    # those taken, each once, and those with taints; 1.36 counts entries of allocations
    counts_devices: bool = since(37)
    device_taint_rules: bool = since(37) & gate("DRADeviceTaintRules")

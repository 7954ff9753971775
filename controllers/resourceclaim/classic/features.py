"""The features of claims that drivers' controllers allocate, 1.26 to 1.31."""

from kubeskew.apimachinery.features import FeatureTable, gate, only, preview, since, until


class ClassicClaimFeatures(FeatureTable):
    """Deallocation and reservation of such claims."""

    allocation_modes: bool = until(30)  # a mode says which claims are delayed; else those with a controller
    # An immediate claim stays allocated when its last user is gone.
    keeps_immediate: bool = only(30) | preview("kep4381")
    # Drivers are asked to deallocate a delayed claim after its last user (118936).
    asks_to_deallocate: bool = since(28) & until(31)
    asks_for_every_claim: bool = only(31)  # also for immediate claims
    # Drivers get the node of pods that got one without the scheduler, by a PodSchedulingContext.
    scheduling_contexts: bool = since(28) & (until(30) | (only(31) & gate("DRAControlPlaneController")))
    shareable_flag: bool = until(30)  # the driver decides if a claim may have several users

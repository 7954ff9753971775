"""The features of the daemon set controller."""

from kubeskew.apimachinery.features import FeatureTable, bug, since
from kubeskew.controllers.framework.features import WRITES_EMPTY_TIMES, indexed_owners, own_writes_awaited
from kubeskew.controllers.framework.owner_references import OwnerMatch


class DaemonSetFeatures(FeatureTable):
    """The pods and revisions of daemon sets."""

    waits_for_own_writes: bool = own_writes_awaited("StaleControllerConsistencyDaemonSet")
    writes_empty_times: bool = WRITES_EMPTY_TIMES  # in revisions
    owner_match: OwnerMatch = indexed_owners(33)  # of pods
    # A changed node concerns a set that lacks a pod there, has one that must go, or any where it should have
    # none; before, each set for which the node changed whether it belongs there (updateNode, syncNodeUpdate).
    wakes_by_need: bool = since(33)
    ignores_old_unavailable: bool = bug("k8s-123232")  # unavailable old pods are not counted

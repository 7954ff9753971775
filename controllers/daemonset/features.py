"""The features of the daemon set controller."""

from kubeskew.apimachinery.features import FeatureTable, bug
from kubeskew.controllers.framework.features import WRITES_EMPTY_TIMES, indexed_owners, own_writes_awaited
from kubeskew.controllers.framework.owner_references import OwnerMatch


class DaemonSetFeatures(FeatureTable):
    """The pods and revisions of daemon sets."""

    waits_for_own_writes: bool = own_writes_awaited("StaleControllerConsistencyDaemonSet")
    writes_empty_times: bool = WRITES_EMPTY_TIMES  # in revisions
    owner_match: OwnerMatch = indexed_owners(33)  # of pods
    ignores_old_unavailable: bool = bug("k8s-123232")  # unavailable old pods are not counted

"""The differences between releases and gates in how daemon sets are reconciled."""

from kubeskew.apimachinery.features import FeatureTable, bug
from kubeskew.controllers.framework.features import WRITES_EMPTY_TIMES, indexed_owners, own_writes_awaited
from kubeskew.controllers.framework.owner_references import OwnerMatch


class DaemonSetFeatures(FeatureTable):
    """Named decisions of the daemon set controller of one release and one set of gates."""

    waits_for_own_writes: bool = own_writes_awaited("StaleControllerConsistencyDaemonSet")
    # revisions up to 1.33 have the template's creationTimestamp, as null
    writes_empty_times: bool = WRITES_EMPTY_TIMES
    owner_match: OwnerMatch = indexed_owners(33)
    forgives_old: bool = bug("k8s-123232")  # old pods that are not available do not count for maxUnavailable

"""The differences between releases and gates in how jobs are counted and ended."""

from kubeskew.apimachinery.features import FeatureTable, bug, gate, since, until
from kubeskew.controllers.framework.features import indexed_owners, own_writes_awaited
from kubeskew.controllers.framework.owner_references import OwnerMatch


class JobFeatures(FeatureTable):
    """Named decisions of the job controller of one release and one set of gates."""

    # The final condition waits until the last pod has ended.
    delays_final_condition: bool = since(31) & (gate("JobManagedBy") | gate("JobPodReplacementPolicy"))
    index_label: bool = gate("PodIndexLabel")
    shows_ready: bool = gate("JobReadyPods")
    shows_terminating: bool = gate("JobPodReplacementPolicy")
    managed_by: bool = gate("JobManagedBy")
    panics_at_many_ending: bool = bug("k8s-121147")  # with podReplacementPolicy Failed
    waits_for_own_writes: bool = own_writes_awaited("StaleControllerConsistencyJob", "k8s-137210")
    # once it failed to remove the finalizers of a deleted job's pods
    gives_orphans_up: bool = bug("k8s-141329")
    # while a new pod is to wait, whatever runs; 1.32's API server refuses that
    none_active_in_backoff: bool = bug("k8s-139457")
    forgets_ended: bool = bug("k8s-130333")  # a job counts as going on until the informer has its end
    # of a deleted job, for one of its name that comes before the controller looks again
    keeps_backoff: bool = bug("k8s-132109")
    keeps_expectations: bool = bug("k8s-142247")  # of a deleted job, as above
    # pods that succeeded may end a job before all have
    success_policies: bool = gate("JobSuccessPolicy") | bug("k8s-125429")
    # The condition of a job whose pods have all succeeded has a reason and a message: their success is a
    # criterion as a policy is (newSuccessCondition).
    reasons_completion: bool = since(31) & gate("JobSuccessPolicy")
    counts_marked: bool = until(26)  # jobs without the annotation are counted by their pods, not finalizers
    owner_match: OwnerMatch = indexed_owners(34)

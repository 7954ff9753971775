"""The features of the job controller."""

from kubeskew.apimachinery.features import FeatureTable, bug, gate, since, until
from kubeskew.controllers.framework.features import indexed_owners, own_writes_awaited
from kubeskew.controllers.framework.owner_references import OwnerMatch


class JobFeatures(FeatureTable):
    """The pods, counts and conditions of jobs."""

    # The final condition waits until the last pod has ended.
    delays_final_condition: bool = since(31) & (gate("JobManagedBy") | gate("JobPodReplacementPolicy"))
    index_label: bool = gate("PodIndexLabel")  # pods have their completion index as a label
    shows_ready: bool = gate("JobReadyPods")  # status.ready
    shows_terminating: bool = gate("JobPodReplacementPolicy")  # status.terminating
    managed_by: bool = gate("JobManagedBy")  # spec.managedBy may name another controller
    # With podReplacementPolicy Failed, if more pods than the parallelism are terminating.
    panics_at_many_ending: bool = bug("k8s-121147")
    waits_for_own_writes: bool = own_writes_awaited("StaleControllerConsistencyJob", "k8s-137210")
    # Removing the finalizer of a deleted job's pod is not tried again after an error.
    orphans_tried_once: bool = bug("k8s-141329")
    # status.active is 0 while a new pod waits for its backoff; 1.32's API server refuses that.
    none_active_in_backoff: bool = bug("k8s-139457")
    forgets_ended: bool = bug("k8s-130333")  # an ended job gets new pods while the cache lacks its end

    # State of a deleted job that a new one of the same name gets
    keeps_backoff: bool = bug("k8s-132109")
    keeps_expectations: bool = bug("k8s-142247")

    success_policies: bool = gate("JobSuccessPolicy") | bug("k8s-125429")  # spec.successPolicy
    # The condition Complete of a job whose pods have all succeeded has a reason and a message
    # (newSuccessCondition).
    reasons_completion: bool = since(31) & gate("JobSuccessPolicy")
    # Only pods of jobs with the annotation job-tracking are counted by finalizers.
    counts_marked: bool = until(26)
    owner_match: OwnerMatch = indexed_owners(34)  # of pods

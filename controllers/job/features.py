"""The differences between releases and gates in how jobs are counted and ended."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.framework.features import owner_match, waits_for_own_writes
from kubeskew.controllers.framework.owner_references import OwnerMatch

# Since then the final condition waits until the last pod has ended (JobManagedBy, JobPodReplacementPolicy).
_DELAYED_SINCE = 31
# Since then the success of all pods is a criterion as a policy is, and named (newSuccessCondition).
_CRITERION_SINCE = 31
# Until then finalizers count only the jobs that the API server has marked.
_MARKED_UNTIL = 26
_INDEXED_SINCE = 34


@dataclass(frozen=True, slots=True)
class JobFeatures:
    """Named decisions of the job controller of one release and one set of gates."""

    delays_final_condition: bool
    index_label: bool
    shows_ready: bool
    shows_terminating: bool
    managed_by: bool
    panics_at_many_ending: bool  # with podReplacementPolicy Failed
    waits_for_own_writes: bool
    gives_orphans_up: bool  # once it failed to remove the finalizers of a deleted job's pods
    none_active_in_backoff: bool  # while a new pod is to wait, whatever runs; 1.32's API server refuses that
    forgets_ended: bool  # a job counts as going on until the informer has its end
    keeps_backoff: bool  # of a deleted job, for one of its name that comes before the controller looks again
    keeps_expectations: bool  # of a deleted job, as above
    success_policies: bool  # pods that succeeded may end a job before all have
    reasons_completion: (
        bool  # the condition of a job whose pods have all succeeded has a reason and a message
    )
    counts_marked: bool  # jobs without the annotation are counted by their existing pods
    owner_match: OwnerMatch

    @classmethod
    def of(cls, version: Version, gates: FeatureGates) -> "JobFeatures":
        announced = gates.enabled("JobManagedBy") or gates.enabled("JobPodReplacementPolicy")
        return cls(
            delays_final_condition=version.minor >= _DELAYED_SINCE and announced,
            index_label=gates.enabled("PodIndexLabel"),
            shows_ready=gates.enabled("JobReadyPods"),
            shows_terminating=gates.enabled("JobPodReplacementPolicy"),
            managed_by=gates.enabled("JobManagedBy"),
            panics_at_many_ending=gates.bugs.present("k8s-121147"),
            waits_for_own_writes=waits_for_own_writes(gates, "StaleControllerConsistencyJob", "k8s-137210"),
            gives_orphans_up=gates.bugs.present("k8s-141329"),
            none_active_in_backoff=gates.bugs.present("k8s-139457"),
            forgets_ended=gates.bugs.present("k8s-130333"),
            keeps_backoff=gates.bugs.present("k8s-132109"),
            keeps_expectations=gates.bugs.present("k8s-142247"),
            success_policies=gates.enabled("JobSuccessPolicy") or gates.bugs.present("k8s-125429"),
            reasons_completion=version.minor >= _CRITERION_SINCE and gates.enabled("JobSuccessPolicy"),
            counts_marked=version.minor <= _MARKED_UNTIL,
            owner_match=owner_match(version, gates, _INDEXED_SINCE),
        )

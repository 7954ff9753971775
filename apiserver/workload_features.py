"""Decides what differs between releases and gates in workloads: a part of features.py."""

from kubeskew.apimachinery.features import FeatureTable, bug, gate, only, since, until


class WorkloadFeatures(FeatureTable):
    """Holds the decisions about stateful sets, jobs and autoscalers."""

    claim_retention: bool = since(27) | gate("StatefulSetAutoDeletePVC")  # has its default
    max_unavailable: bool = gate("MaxUnavailableStatefulSet")
    revision_data_is_object: bool = since(31)  # a new ControllerRevision's data must be one
    # An update is checked as if all were new, and then again.
    replica_sets_twice: bool = bug("k8s-131873")
    daemon_sets_twice: bool = bug("k8s-132548")
    controllers_twice: bool = until(34)  # replication controllers
    history_limit_changes: bool = since(33)  # revisionHistoryLimit of a stateful set may change
    manual_selector_default: bool = since(31)  # jobs: it is written (from memory)
    pod_replacement_policy: bool = since(29) | gate("JobPodReplacementPolicy")  # has its default
    job_managed_by: bool = gate("JobManagedBy")  # the status of jobs is checked strictly
    # The status of jobs is judged too strictly: of empty ones that were never started, of resumed ones.
    empty_needs_start: bool = bug("k8s-132727")
    resumed_keeps_start: bool = bug("k8s-134769")
    status_wording: bool = since(34)  # of errors of times and of pods that are not counted yet
    start_as_removed: bool = bug("k8s-136585")  # another startTime is told as one that is removed
    interim_conditions: bool = since(31)  # a job that ends has an interim condition first
    bare_cron_conditions: bool = bug("k8s-131525")  # of failure policies: they get no status
    marks_tracked_jobs: bool = until(26)  # those whose pods are counted by finalizers
    # Before, the labels of a job's pods had no prefix, and the selector was of these.
    prefixed_job_labels: bool = since(27)
    elastic_jobs: bool = since(31) | gate("ElasticIndexedJob")
    suspended_placing: bool = gate("MutableSchedulingDirectivesForSuspendedJobs")  # once more at rest
    # Not before the controller says that the job is suspended.
    placing_needs_condition: bool = only(35) | bug("k8s-139329")
    suspended_resources: bool = gate("MutablePodResourcesForSuspendedJobs")
    autoscaler_generation: bool = since(37) & gate("HPAGeneration")
    groups_of_workloads: bool = until(35)  # a Workload has its groups of pods itself
    scale_to_zero: bool = gate("HPAScaleToZero")
    zero_metric_values: bool = bug("k8s-137856")  # autoscaling/v1 has a value with each averageValue
    most_replicas_required: bool = since(36)  # an autoscaler without maxReplicas lacks a required value
    service_names_checked: bool = since(33)  # of new stateful sets
    # Stateful sets check their claim templates, and their pod template as a whole.
    stateful_set_templates: bool = since(34)
    missed_scales: bool = until(32)  # a 404 for a missing Scale names the subresource
    target_versions: bool = since(34)  # the version of what is scaled is looked at

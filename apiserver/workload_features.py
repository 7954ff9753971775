"""The features of workload kinds in the API server: a part of features.py."""

from kubeskew.apimachinery.features import FeatureTable, bug, gate, only, since, until


class WorkloadFeatures(FeatureTable):
    """The rules and defaults of workload kinds: those of apps, batch, autoscaling and scheduling."""

    # Stateful sets and other sets
    # The default of persistentVolumeClaimRetentionPolicy.
    claim_retention: bool = since(27) | gate("StatefulSetAutoDeletePVC")
    max_unavailable: bool = gate("MaxUnavailableStatefulSet")
    revision_data_is_object: bool = since(31)  # the data of a new ControllerRevision must be a JSON object
    replica_sets_twice: bool = bug("k8s-131873")  # updates are validated twice, with each error repeated
    daemon_sets_twice: bool = bug("k8s-132548")  # as above
    controllers_twice: bool = until(34)  # replication controllers, as above
    history_limit_changes: bool = since(33)  # revisionHistoryLimit of a stateful set may change

    # Jobs
    manual_selector_default: bool = since(29)  # manualSelector: false is written
    pod_replacement_policy: bool = since(29) | gate("JobPodReplacementPolicy")  # it has its default
    job_managed_by: bool = gate("JobManagedBy")  # updates of the status are validated strictly
    # A suspended job with 0 completions may not end without a startTime.
    empty_needs_start: bool = bug("k8s-132727")
    resumed_keeps_start: bool = bug("k8s-134769")  # startTime may not change when a job is resumed
    status_wording: bool = since(34)  # texts about completionTime and uncountedTerminatedPods
    start_as_removed: bool = bug("k8s-136585")  # a changed startTime: the error of a removed one
    interim_conditions: bool = since(31)  # Complete needs SuccessCriteriaMet first, Failed FailureTarget
    bare_cron_conditions: bool = bug("k8s-131525")  # cron jobs: onPodConditions get no default status
    marks_tracked_jobs: bool = until(26)  # annotation batch.kubernetes.io/job-tracking
    prefixed_job_labels: bool = since(27)  # labels of pods and the selector: batch.kubernetes.io/job-name
    elastic_jobs: bool = since(31) | gate("ElasticIndexedJob")  # completions may change with parallelism
    # Scheduling directives of a job that was started may change while it is suspended without pods.
    suspended_placing: bool = gate("MutableSchedulingDirectivesForSuspendedJobs")
    # That takes the condition Suspended also of a job that was never started.
    placing_needs_condition: bool = only(35) | bug("k8s-139329")
    suspended_resources: bool = gate("MutablePodResourcesForSuspendedJobs")  # container resources, likewise

    # Autoscalers, workloads and more of stateful sets
    autoscaler_generation: bool = since(37) & gate("HPAGeneration")
    groups_of_workloads: bool = until(35)  # a Workload lists its groups of pods in its spec
    scale_to_zero: bool = gate("HPAScaleToZero")
    zero_metric_values: bool = bug("k8s-137856")  # autoscaling/v1: a value of 0 with each averageValue
    most_replicas_required: bool = since(36)  # maxReplicas of 0 is a missing value
    service_names_checked: bool = since(33)  # serviceName of new stateful sets
    stateful_set_templates: bool = since(34)  # volumeClaimTemplates and the whole pod template are validated
    missed_scales: bool = until(32)  # a 404 for a missing Scale names the subresource
    target_versions: bool = since(34)  # scaleTargetRef.apiVersion is validated

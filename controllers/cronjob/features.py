"""The features of the cron job controller."""

from kubeskew.apimachinery.features import FeatureTable, bug, gate


class CronJobFeatures(FeatureTable):
    """The jobs that cron jobs create, find and clean up."""

    scheduled_annotation: bool = gate("CronJobsScheduledAnnotation")  # jobs have their scheduled time

    # A job that was created but is missing in status.active
    overlooks_made_jobs: bool = bug("k8s-120649")  # counts as a job of another owner
    loses_made_jobs: bool = bug("k8s-136920")  # is searched without a namespace, and not found

    owner_by_name: bool = bug("k8s-133313")  # owners of jobs are compared by name only, not by kind and UID
    # Old jobs are cleaned up after the next job is created; if that fails, they stay.
    failure_skips_clean_up: bool = bug("k8s-119776")
    # Missed starts are computed as if all starts of a schedule were equally far apart.
    even_schedules: bool = bug("k8s-118724")

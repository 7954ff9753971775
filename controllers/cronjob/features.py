"""The differences between releases and gates in what cron jobs write and clean up."""

from kubeskew.apimachinery.features import FeatureTable, bug, gate


class CronJobFeatures(FeatureTable):
    """Named decisions of the cron job controller of one release and one set of gates."""

    # on each job: the time that it was created for
    scheduled_annotation: bool = gate("CronJobsScheduledAnnotation")
    # one whose creation was not noted is taken for somebody else's
    overlooks_made_jobs: bool = bug("k8s-120649")
    # one whose creation was not noted is looked for in no namespace
    loses_made_jobs: bool = bug("k8s-136920")
    owner_by_name: bool = bug("k8s-133313")  # takes a job for its own by the name of whatever controls it
    # old jobs go after the next one is made, and stay while it cannot be
    failure_skips_clean_up: bool = bug("k8s-119776")
    # takes all starts of a schedule to be as far apart as two of them
    even_schedules: bool = bug("k8s-118724")

"""The differences between releases and gates in what cron jobs write and clean up."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates


@dataclass(frozen=True, slots=True)
class CronJobFeatures:
    """Named decisions of the cron job controller of one release and one set of gates."""

    scheduled_annotation: bool  # on each job: the time that it was created for
    overlooks_made_jobs: bool  # one whose creation was not noted is taken for somebody else's
    loses_made_jobs: bool  # one whose creation was not noted is looked for in no namespace
    owner_by_name: bool  # takes a job for its own by the name of whatever controls it
    failure_skips_clean_up: bool  # old jobs go after the next one is made, and stay while it cannot be
    even_schedules: bool  # takes all starts of a schedule to be as far apart as two of them

    @classmethod
    def of(cls, gates: FeatureGates) -> "CronJobFeatures":
        return cls(
            scheduled_annotation=gates.enabled("CronJobsScheduledAnnotation"),
            overlooks_made_jobs=gates.bugs.present("k8s-120649"),
            loses_made_jobs=gates.bugs.present("k8s-136920"),
            owner_by_name=gates.bugs.present("k8s-133313"),
            failure_skips_clean_up=gates.bugs.present("k8s-119776"),
            even_schedules=gates.bugs.present("k8s-118724"),
        )

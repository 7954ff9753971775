"""The differences between gates in what cron jobs write."""

from dataclasses import dataclass

from kubeskew.apimachinery.gates import FeatureGates


@dataclass(frozen=True, slots=True)
class CronJobFeatures:
    """Named decisions of the cron job controller of one set of gates."""

    scheduled_annotation: bool  # on each job: the time that it was created for

    @classmethod
    def of(cls, gates: FeatureGates) -> "CronJobFeatures":
        return cls(
            scheduled_annotation=gates.enabled("CronJobsScheduledAnnotation"),
        )

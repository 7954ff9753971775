"""Sets the defaults of CronJob objects.

Source: pkg/apis/batch/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.batch.job.defaults import failure_patterns
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill,
    fill_null,
    struct,
)
from kubeskew.apiserver.registry.shared.podtemplate.defaults import template


def cron_job(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill(spec, concurrencyPolicy="Allow")
    fill_null(spec, suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    job = struct(struct(spec, "jobTemplate"), "spec")
    template(job, ctx)
    if not ctx.features.workloads.bare_cron_conditions:
        failure_patterns(job)

"""Sets the defaults of CronJob objects.

Source: pkg/apis/batch/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
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
    template(struct(struct(spec, "jobTemplate"), "spec"), ctx)

"""Decides how Jobs are written.

Source: pkg/registry/batch/job/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.batch.job import (
    status_validation,
    update_validation,
)
from kubeskew.apiserver.registry.batch.job import (
    validation as job_validation,
)
from kubeskew.apiserver.registry.generic.builtin import SpecKeptStatus, WithGeneration
from kubeskew.apiserver.registry.generic.check_order import UPDATE_AS_NEW, Check
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.podtemplate.host_names import host_name_warnings
from kubeskew.apiserver.registry.shared.podtemplate.template_options import template_options
from kubeskew.apiserver.registry.shared.podtemplate.warnings import template_warnings
from kubeskew.apiserver.registry.shared.workloads import validation as workload_validation

_MANY = 100_000

_MANY_AT_ONCE = 10_000

_TOO_MANY = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
    "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
)

ZONE_WARNING = (
    "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
    "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)

_CONTROLLER_UID = "controller-uid"

_JOB_NAME = "job-name"

_PREFIX = "batch.kubernetes.io/"


class JobStatus(SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        workloads = ctx.features.workloads
        return list(status_validation.status_errors(new, old, workloads))


class JobStrategy(WithGeneration):
    """Jobs: they select pods by their own uid, unless they have another selector."""

    status = JobStatus
    update_checks = (Check.METADATA, *UPDATE_AS_NEW)
    field_labels = ("status.successful",)
    default_propagation = "Orphan"
    orphans_with_warning = (
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to "
        "remove them or set propagationPolicy=Orphan to suppress this warning"
    )

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        spec, metadata = obj["spec"], obj["metadata"]
        if ctx.features.workloads.marks_tracked_jobs:
            metadata["annotations"] = {**(metadata.get("annotations") or {}), job_validation.TRACKING: ""}
        if spec.get("manualSelector"):
            return
        prefixes = ("", _PREFIX) if ctx.features.workloads.prefixed_job_labels else ("",)
        labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
        for prefix in prefixes:
            labels.setdefault(
                prefix + _JOB_NAME, metadata.get("name", "")
            )  # that it is required is said later
            labels.setdefault(prefix + _CONTROLLER_UID, metadata["uid"])
        selector = spec["selector"] = spec.get("selector") or {}
        selector.setdefault("matchLabels", {}).setdefault(prefixes[-1] + _CONTROLLER_UID, metadata["uid"])
        if not metadata.get("labels"):  # the default that upstream applies when it reads the job back
            metadata["labels"] = dict(labels)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        prefixed = ctx.features.workloads.prefixed_job_labels
        return job_validation.job_errors(obj, template_options(ctx), prefixed=prefixed)

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        options = template_options(ctx, new["spec"], old["spec"])
        labels = workload_validation.template_labels(old["spec"])
        prefixed = ctx.features.workloads.prefixed_job_labels and all(
            job_validation.PREFIX + name in labels for name in (_CONTROLLER_UID, _JOB_NAME)
        )
        markable = not ctx.features.workloads.marks_tracked_jobs or job_validation.is_marked(old)
        return job_validation.job_errors(new, options, prefixed=prefixed, markable=markable)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        """Returns the spec's errors once more, as ValidateJobSpecUpdate begins with them."""
        options, spec = template_options(ctx, new["spec"], old["spec"]), new["spec"]
        return [
            *job_validation.spec_errors(spec, options),
            *update_validation.change_errors(spec, old["spec"], _allowed(old, ctx)),
        ]

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return [*host_name_warnings(obj), *job_warnings(obj["spec"], "spec", ctx)]

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        if new["metadata"].get("generation") == old["metadata"].get("generation"):
            return []
        return job_warnings(new["spec"], "spec", ctx)

    def fields(self, obj: Object) -> dict[str, str]:
        found = super().fields(obj)
        found["status.successful"] = str((obj.get("status") or {}).get("succeeded") or 0)
        return found


def _allowed(old: Object, ctx: StrategyContext) -> update_validation.JobChanges:
    """Returns the allowed changes: suspended jobs without pods may change placement and resources."""
    suspended, status = bool(old["spec"].get("suspend")), old.get("status") or {}
    conditions = status.get("conditions") or ()
    said = any(
        condition.get("type") == "Suspended" and condition.get("status") == "True" for condition in conditions
    )
    features, not_started = ctx.features.workloads, status.get("startTime") is None
    at_rest = not status.get("active") and (said or (not_started and not features.placing_needs_condition))
    placing = suspended and (at_rest if features.suspended_placing else not_started)
    resources = features.suspended_resources and at_rest and (suspended or features.placing_needs_condition)
    return update_validation.JobChanges(
        elastic=features.elastic_jobs,
        placing=placing,
        resources=resources,
    )


def job_warnings(spec: Object, path: str, ctx: StrategyContext) -> list[str]:
    found = []
    many = (spec.get("completions") or 0) > _MANY and (spec.get("parallelism") or 0) > _MANY_AT_ONCE
    if spec.get("completionMode") == "Indexed" and many:
        found.append(f"{path}: {_TOO_MANY}")
    template = spec.get("template") or {}
    return [*found, *template_warnings(template, f"{path}.template", ctx.features.pods)]

"""Job: defaults, strategies and cells of tables.

Sources: pkg/apis/batch/v1/defaults.go, pkg/registry/batch/job/strategy.go,
pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.batch.job import status_validation, validation
from kubeskew.apiserver.registry.defaulting import DefaultingContext, each, fill, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import SpecKeptStatus, WithGeneration
from kubeskew.apiserver.registry.generic.strategy import UPDATE_AS_NEW, Check, StrategyContext
from kubeskew.apiserver.registry.shared import workloads
from kubeskew.apiserver.registry.shared.conditions import true_conditions
from kubeskew.apiserver.registry.shared.pod_options import template_options
from kubeskew.apiserver.registry.shared.podtemplate.defaults import template
from kubeskew.apiserver.registry.shared.podtemplate.warnings import host_name_warnings, template_warnings
from kubeskew.apiserver.registry.tables.cells import Cells, Subject, human_duration, template_cells

BACKOFF_LIMIT = 6

UNLIMITED = 2**31 - 1
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
# The first of these conditions that is True is the job's state; then comes a deletion.
_JOB_ENDS = ("Complete", "Failed")

_JOB_STATES = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def failure_patterns(spec: Object) -> None:
    for rule in each(spec.get("podFailurePolicy") or {}, "rules"):
        for pattern in each(rule, "onPodConditions"):
            fill(pattern, status="True")


def default_job(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    template(spec, ctx)
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    limit = UNLIMITED if spec.get("backoffLimitPerIndex") is not None else BACKOFF_LIMIT
    fill_null(spec, parallelism=1, backoffLimit=limit, completionMode="NonIndexed", suspend=False)
    if ctx.features.workloads.manual_selector_default:
        fill_null(spec, manualSelector=False)
    if ctx.features.workloads.pod_replacement_policy:
        policy = "Failed" if spec.get("podFailurePolicy") is not None else "TerminatingOrFailed"
        fill_null(spec, podReplacementPolicy=policy)
    failure_patterns(spec)
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if labels:  # the same map, as upstream: what the strategy adds to the one is in the other, too
        fill(struct(obj, "metadata"), labels=labels)


class JobStatus(SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(status_validation.status_errors(new, old, ctx.features.workloads))


class JobStrategy(WithGeneration):
    """Jobs select pods by their own uid, unless they have another selector."""

    status = JobStatus
    loses_defaults = True  # its labels, which are the template's
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
            metadata["annotations"] = {**(metadata.get("annotations") or {}), validation.TRACKING: ""}
        if spec.get("manualSelector"):
            return
        prefixes = ("", _PREFIX) if ctx.features.workloads.prefixed_job_labels else ("",)
        labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
        for prefix in prefixes:
            labels.setdefault(
                prefix + _JOB_NAME, metadata.get("name", "")
            )  # a missing name is reported later
            labels.setdefault(prefix + _CONTROLLER_UID, metadata["uid"])
        selector = spec["selector"] = spec.get("selector") or {}
        selector.setdefault("matchLabels", {}).setdefault(prefixes[-1] + _CONTROLLER_UID, metadata["uid"])

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        prefixed = ctx.features.workloads.prefixed_job_labels
        return validation.job_errors(obj, template_options(ctx), prefixed=prefixed)

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        options = template_options(ctx, new["spec"], old["spec"])
        labels = workloads.template_labels(old["spec"])
        prefixed = ctx.features.workloads.prefixed_job_labels and all(
            validation.PREFIX + name in labels for name in (_CONTROLLER_UID, _JOB_NAME)
        )
        markable = not ctx.features.workloads.marks_tracked_jobs or validation.is_marked(old)
        return validation.job_errors(new, options, prefixed=prefixed, markable=markable)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        """The spec's errors come again, as ValidateJobSpecUpdate begins with them."""
        options, spec = template_options(ctx, new["spec"], old["spec"]), new["spec"]
        return [
            *validation.spec_errors(spec, options),
            *validation.change_errors(spec, old["spec"], _allowed(old, ctx)),
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


def _allowed(old: Object, ctx: StrategyContext) -> validation.JobChanges:
    """Suspended jobs without pods may change placement and resources."""
    suspended, status = bool(old["spec"].get("suspend")), old.get("status") or {}
    said = "Suspended" in true_conditions(status)
    features, not_started = ctx.features.workloads, status.get("startTime") is None
    at_rest = not status.get("active") and (said or (not_started and not features.placing_needs_condition))
    placing = suspended and (at_rest if features.suspended_placing else not_started)
    resources = features.suspended_resources and at_rest and (suspended or features.placing_needs_condition)
    return validation.JobChanges(
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


def job_cells(subject: Subject) -> Cells:
    return {
        "Status": _job_state(subject),
        "Completions": _completions(subject),
        "Duration": _job_duration(subject),
        **template_cells(subject),
    }


def _job_state(subject: Subject) -> str:
    ended = next(filter(subject.is_true, _JOB_ENDS), None)
    if ended or subject.deleted:
        return ended or "Terminating"
    return next(filter(subject.is_true, _JOB_STATES), "Running")


def _completions(subject: Subject) -> str:
    succeeded, wanted = subject.number("status", "succeeded"), subject.at("spec", "completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = subject.number("spec", "parallelism")
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(subject: Subject) -> str:
    start, end = subject.at("status", "startTime"), subject.at("status", "completionTime")
    if not start:
        return ""
    return human_duration((parse_timestamp(end) if end else subject.now) - parse_timestamp(start))

"""batch: Job and CronJob. Source: pkg/registry/batch/*/strategy.go, 1.36."""

from collections.abc import Mapping

from apimachinery.errors import GroupResource, Object
from apimachinery.field import FieldError, not_supported, required
from apiserver.registry.strategies.apps import template_options
from apiserver.registry.strategies.shared import Counted
from apiserver.registry.strategy import Strategy, StrategyContext
from apiserver.registry.validation import workloads
from apiserver.registry.validation.pod_options import PodOptions
from apiserver.registry.validation.pod_spec import template_errors

_RESTART = ("OnFailure", "Never")
_CONTROLLER_UID, _JOB_NAME = "controller-uid", "job-name"
_PREFIX = "batch.kubernetes.io/"


class JobStrategy(Counted):
    """A job selects its pods by its own uid, unless it says otherwise."""

    field_labels = ("status.successful",)
    default_propagation = "Orphan"

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        spec, metadata = obj["spec"], obj["metadata"]
        if spec.get("manualSelector"):
            return
        labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
        name = metadata.get("name", "")  # that it is required is said later
        labels.setdefault(_JOB_NAME, name)
        labels.setdefault(_CONTROLLER_UID, metadata["uid"])
        labels.setdefault(_PREFIX + _JOB_NAME, name)
        labels.setdefault(_PREFIX + _CONTROLLER_UID, metadata["uid"])
        selector = spec["selector"] = spec.get("selector") or {}
        selector.setdefault("matchLabels", {}).setdefault(_PREFIX + _CONTROLLER_UID, metadata["uid"])
        if not metadata.get("labels"):  # the default that upstream applies when it reads the job back
            metadata["labels"] = dict(labels)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        spec = obj["spec"]
        errors = [] if spec.get("selector") else [required("spec.selector")]
        errors += workloads.not_negative(
            spec,
            "spec",
            "parallelism",
            "completions",
            "activeDeadlineSeconds",
            "backoffLimit",
            "ttlSecondsAfterFinished",
        )
        return errors + _template(spec, "spec.template", template_options(ctx))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = self.validate(new, ctx)
        for name in ("completions", "selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"):
            errors += workloads.immutable(new["spec"].get(name), old["spec"].get(name), f"spec.{name}")
        if not old["spec"].get("suspend"):
            before, after = old["spec"].get("template"), new["spec"].get("template")
            errors += workloads.immutable(after, before, "spec.template")
        return errors

    def fields(self, obj: Object) -> Mapping[str, str]:
        found = dict(super().fields(obj))
        found["status.successful"] = str((obj.get("status") or {}).get("succeeded") or 0)
        return found


def _template(spec: Object, path: str, options: PodOptions) -> list[FieldError]:
    template = spec.get("template") or {}
    errors = template_errors(template, path, options)
    policy = (template.get("spec") or {}).get("restartPolicy") or ""
    if policy not in _RESTART:
        at = f"{path}.spec.restartPolicy"
        if policy == "Always":
            errors.append(required(at, 'valid values: "OnFailure", "Never"'))
        else:
            errors.append(not_supported(at, policy, _RESTART))
    return errors


class CronJobStrategy(Counted):
    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        spec = obj["spec"]
        errors = [] if spec.get("schedule") else [required("spec.schedule")]
        policy = spec.get("concurrencyPolicy")
        if policy not in {"Allow", "Forbid", "Replace"}:
            at = "spec.concurrencyPolicy"
            errors.append(not_supported(at, policy or "", ("Allow", "Forbid", "Replace")))
        errors += workloads.not_negative(
            spec, "spec", "startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"
        )
        return errors + _template(
            (spec.get("jobTemplate") or {}).get("spec") or {},
            "spec.jobTemplate.spec.template",
            template_options(ctx),
        )


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource("batch", "jobs"): JobStrategy,
    GroupResource("batch", "cronjobs"): CronJobStrategy,
}

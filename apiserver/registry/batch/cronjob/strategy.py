"""Decides how CronJobs are written.

Source: pkg/registry/batch/cronjob/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.batch.cronjob import validation as cronjob_validation
from kubeskew.apiserver.registry.batch.job.strategy import ZONE_WARNING, job_warnings
from kubeskew.apiserver.registry.generic.builtin import WithGeneration
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.podtemplate.host_names import host_name_warnings
from kubeskew.apiserver.registry.shared.podtemplate.template_options import template_options


class CronJobStrategy(WithGeneration):
    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = cronjob_validation.spec_errors(obj["spec"], None, template_options(ctx))
        name = obj["metadata"].get("name") or ""
        if len(name) > cronjob_validation.MAX_NAME:
            text = f"must be no more than {cronjob_validation.MAX_NAME} characters"
            errors.append(invalid("metadata.name", name, text))
        return errors

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        jobs_of = [(obj["spec"].get("jobTemplate") or {}).get("spec") or {} for obj in (new, old)]
        return cronjob_validation.spec_errors(new["spec"], old["spec"], template_options(ctx, *jobs_of))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return [*host_name_warnings(obj), *self._template_warnings(obj, ctx)]

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        found = [ZONE_WARNING] if "TZ" in (new["spec"].get("schedule") or "") else []
        if new["metadata"].get("generation") == old["metadata"].get("generation"):
            return found
        return [*found, *self._template_warnings(new, ctx)]

    def _template_warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        spec = (obj["spec"].get("jobTemplate") or {}).get("spec") or {}
        return job_warnings(spec, "spec.jobTemplate.spec", ctx)

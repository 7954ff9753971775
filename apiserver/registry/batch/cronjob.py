"""CronJob: defaults, validation, strategy and cells of tables.

Sources: pkg/apis/batch/v1/defaults.go, pkg/apis/batch/validation/validation.go (validateCronJobSpec),
pkg/registry/batch/cronjob/strategy.go, 1.36.
"""

import re
from collections.abc import Iterator

from kubeskew.apimachinery import cron
from kubeskew.apimachinery.field import FieldError, invalid, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.batch.job.strategy import ZONE_WARNING, failure_patterns, job_warnings
from kubeskew.apiserver.registry.batch.job.validation import template_spec_errors
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import WithGeneration
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.pod_options import PodOptions, template_options
from kubeskew.apiserver.registry.shared.podtemplate.defaults import template
from kubeskew.apiserver.registry.shared.podtemplate.warnings import host_name_warnings
from kubeskew.apiserver.registry.shared.workloads import not_negative
from kubeskew.apiserver.registry.tables.cells import NONE, Cells, Subject, boolean, containers, selector

MAX_NAME = 52  # the names of its jobs end in 11 characters more
_POLICIES = ("Allow", "Forbid", "Replace")
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}", re.ASCII)
_EXPLICIT = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"


def default_cron_job(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill(spec, concurrencyPolicy="Allow")
    fill_null(spec, suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    job = struct(struct(spec, "jobTemplate"), "spec")
    template(job, ctx)
    if not ctx.features.workloads.bare_cron_conditions:
        failure_patterns(job)


def spec_errors(spec: Object, old: Object | None, options: PodOptions) -> list[FieldError]:
    schedule, template = spec.get("schedule") or "", (spec.get("jobTemplate") or {}).get("spec") or {}
    errors: list[FieldError] = []
    if not schedule:
        errors.append(required("spec.schedule"))
    else:
        allowed = old is not None and "TZ" in (old.get("schedule") or "")
        errors += _schedule(schedule, zoned=spec.get("timeZone") is not None, allowed=allowed)
    errors += not_negative(spec, "spec", "startingDeadlineSeconds")
    zone = spec.get("timeZone")
    if zone is not None and (old is None or old.get("timeZone") != zone):
        errors += _zone(zone)
    policy, at = spec.get("concurrencyPolicy") or "", "spec.concurrencyPolicy"
    if not policy:
        errors.append(required(at))
    elif policy not in _POLICIES:
        errors.append(not_supported(at, policy, _POLICIES))
    errors += _job_errors(template, "spec.jobTemplate.spec", options)
    errors += not_negative(spec, "spec", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    return errors


def _schedule(schedule: str, *, zoned: bool, allowed: bool) -> Iterator[FieldError]:
    """`allowed`: the old schedule named a zone already."""
    at = "spec.schedule"
    try:
        cron.parse(schedule)
    except cron.CronError as error:
        yield invalid(at, schedule, str(error))
    if "TZ" in schedule and not allowed:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid(at, schedule, text)
    elif "TZ" in schedule and zoned:
        yield invalid(at, schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")


def _zone(zone: str) -> Iterator[FieldError]:
    at, unknown = "spec.timeZone", f"unknown time zone {zone}"
    if not zone:
        yield invalid(at, zone, "timeZone must be nil or non-empty string")
        return
    for part in zone.split("/"):
        if part in {".", ".."} or part.startswith("-") or not _ZONE_PART.fullmatch(part):
            yield invalid(at, zone, unknown)
            return
    if zone.lower() == "local":
        yield invalid(at, zone, _EXPLICIT)
    if zone == "Local":
        return  # which Go can load
    try:
        cron.location(zone)
    except cron.CronError:
        yield invalid(at, zone, unknown)


def _job_errors(spec: Object, path: str, options: PodOptions) -> Iterator[FieldError]:
    yield from template_spec_errors(spec, path, options)
    if spec.get("selector") is not None:
        yield invalid(f"{path}.selector", spec["selector"], "`selector` will be auto-generated")
    if spec.get("manualSelector"):
        yield not_supported(f"{path}.manualSelector", True, ("nil", "false"))


class CronJobStrategy(WithGeneration):
    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = spec_errors(obj["spec"], None, template_options(ctx))
        name = obj["metadata"].get("name") or ""
        if len(name) > MAX_NAME:
            text = f"must be no more than {MAX_NAME} characters"
            errors.append(invalid("metadata.name", name, text))
        return errors

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        jobs_of = [(obj["spec"].get("jobTemplate") or {}).get("spec") or {} for obj in (new, old)]
        return spec_errors(new["spec"], old["spec"], template_options(ctx, *jobs_of))

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


def cron_job_cells(subject: Subject) -> Cells:
    job_spec = ("spec", "jobTemplate", "spec")
    return {
        "Schedule": subject.text("spec", "schedule"),
        "Timezone": subject.text("spec", "timeZone", default=NONE),
        "Suspend": boolean(subject.at("spec", "suspend")),
        "Active": subject.count("status", "active"),
        "Last Schedule": subject.since("status", "lastScheduleTime", default=NONE),
        **containers(subject.at(*job_spec, "template")),
        "Selector": selector(subject.at(*job_spec, "selector")),
    }

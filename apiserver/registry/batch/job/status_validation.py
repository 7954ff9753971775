"""Job: the rules of the status, where it changed.

Source: pkg/apis/batch/validation (validateJobStatus, ValidateJobStatusUpdate) and pkg/registry/batch/job
(getStatusValidationOptions), 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import OMITTED, FieldError, Named, child, duplicate, index, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.batch.job.validation import IndexesError, index_intervals, index_overlap
from kubeskew.apiserver.registry.shared.amounts import NOT_NEGATIVE
from kubeskew.apiserver.registry.shared.conditions import true_conditions
from kubeskew.apiserver.workload_features import WorkloadFeatures

_AT = "status"
_CONDITIONS = "status.conditions"
_COUNTS = ("active", "succeeded", "failed", "ready", "terminating")


class _Job:
    def __init__(self, job: Object) -> None:
        self.spec, self.status = job["spec"], job.get("status") or {}
        self.true = true_conditions(self.status)
        conditions = self.status.get("conditions") or ()
        self.false = {condition["type"] for condition in conditions if condition.get("status") == "False"}

    @property
    def finished(self) -> bool:
        return bool(self.true & {"Complete", "Failed"})

    def __getitem__(self, name: str) -> object:
        return self.status.get(name)


def status_errors(new: Object, old: Object, rules: WorkloadFeatures) -> Iterator[FieldError]:
    """The whole status is checked once others may manage jobs (gate JobManagedBy)."""
    job, before, strict = _Job(new), _Job(old), rules.job_managed_by
    for name in _COUNTS:
        number = job.status.get(name) or 0
        if number < 0:
            yield invalid(child(_AT, name), number, NOT_NEGATIVE)
    yield from _uncounted(job.status.get("uncountedTerminatedPods") or {})
    if strict:
        changed = {name for name in {*job.status, *before.status} if job[name] != before[name]}
        turned = job.true ^ before.true
        ended = job.finished != before.finished
        yield from _ending(job, changed, turned, rules, ended=ended)
        yield from _indexes(job, changed)
        ready = job.status.get("ready")
        if {"ready", "active"} & changed and ready is not None and ready > (job.status.get("active") or 0):
            yield invalid("status.ready", ready, "cannot set more ready pods than active")
    yield from _success(job)
    if strict:
        yield from _backwards(job, before, rules)
    if "SuccessCriteriaMet" in before.true - job.true:
        yield _condition("cannot disable the SuccessCriteriaMet=True condition")
    if "Complete" in before.true and "SuccessCriteriaMet" in job.true - before.true:
        yield _condition("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")


def _condition(text: str) -> FieldError:
    return invalid(_CONDITIONS, OMITTED, text)


def _uncounted(pods: Object) -> Iterator[FieldError]:
    seen: set[str] = set()
    for field in ("succeeded", "failed"):
        for position, uid in enumerate(pods.get(field) or ()):
            at = index(f"status.uncountedTerminatedPods.{field}", position)
            if not uid:
                yield invalid(at, uid, "must not be empty")
            elif uid in seen:
                yield duplicate(at, uid)
            seen.add(uid)


def _interim(job: _Job, turned: set[str]) -> Iterator[FieldError]:
    """A final condition must come with the interim one that announces it."""
    if {"Failed", "FailureTarget"} & turned and "Failed" in job.true and "FailureTarget" not in job.true:
        yield _condition("cannot set Failed=True condition without the FailureTarget=true condition")
    if (
        {"Complete", "SuccessCriteriaMet"} & turned
        and "Complete" in job.true
        and "SuccessCriteriaMet" not in job.true
    ):
        yield _condition("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")


def _ending(
    job: _Job, changed: set[str], turned: set[str], rules: WorkloadFeatures, *, ended: bool
) -> Iterator[FieldError]:
    complete = "Complete" in job.true
    for other in ("Failed", "FailureTarget"):
        if complete and other in job.true and {"Complete", other} & turned:
            yield _condition(f"cannot set Complete=True and {other}=true conditions")
    yield from _completion_time(job, changed, rules, complete=complete, turned="Complete" in turned)
    if rules.interim_conditions:
        yield from _interim(job, turned)
    if not job.finished:
        return
    active, terminating = job.status.get("active") or 0, job.status.get("terminating") or 0
    if active > 0 and (ended or "active" in changed):
        yield invalid("status.active", active, "active>0 is invalid for finished job")
    empty = job.spec.get("suspend") and job.spec.get("completions") == 0 and not rules.empty_needs_start
    if job["startTime"] is None and (ended or "startTime" in changed) and not empty:
        yield required("status.startTime", "startTime is required for finished job")
    uncounted = job.status.get("uncountedTerminatedPods") or {}
    if any(uncounted.values()) and (ended or "uncountedTerminatedPods" in changed):
        text = "must be empty" if rules.status_wording else "uncountedTerminatedPods needs to be empty"
        yield invalid("status.uncountedTerminatedPods", uncounted, f"{text} for finished job")
    if terminating > 0 and (ended or "terminating" in changed):
        yield invalid("status.terminating", terminating, "terminating>0 is invalid for finished job")


def _completion_time(
    job: _Job, changed: set[str], rules: WorkloadFeatures, *, complete: bool, turned: bool
) -> Iterator[FieldError]:
    at, time, start = "status.completionTime", job.status.get("completionTime"), job.status.get("startTime")
    if turned or "completionTime" in changed:
        if time is not None and not complete:
            text = "cannot set completionTime when there is no Complete=True condition"
            yield invalid(at, time, text)
        if time is None and complete:
            yield required(at, "completionTime is required for Complete jobs")
    if {"startTime", "completionTime"} & changed and time and start and time < start:
        early = "must be equal to or after `startTime`"
        text = early if rules.status_wording else "completionTime cannot be set before startTime"
        yield invalid(at, time, text)


def _indexes(job: _Job, changed: set[str]) -> Iterator[FieldError]:
    if not {"completedIndexes", "failedIndexes"} & changed:
        return
    completions, per_index = job.spec.get("completions"), job.spec.get("backoffLimitPerIndex") is not None
    done, failed = job.status.get("completedIndexes") or "", job.status.get("failedIndexes")
    for name, text, asked in (
        ("completedIndexes", done, True),
        ("failedIndexes", Named(failed or ""), per_index and failed is not None),  # a pointer in Go
    ):
        if name in changed and completions is not None and asked:
            try:
                index_intervals(text, completions)
            except IndexesError as error:
                yield invalid(child(_AT, name), text, f"error parsing {name}: {error}")
    if done and "completedIndexes" in changed and job.spec.get("completionMode") != "Indexed":
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid("status.completedIndexes", done, text)
    if failed is None:
        return
    if not per_index and "failedIndexes" in changed:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid("status.failedIndexes", Named(failed), text)
    if completions is None or not (done and failed):
        return
    found = index_overlap(done, failed, completions)
    if found is not None:
        text = f"failedIndexes and completedIndexes overlap at index: {found}"
        yield invalid("status.failedIndexes", Named(failed), text)


def _success(job: _Job) -> Iterator[FieldError]:
    met = "SuccessCriteriaMet" in job.true
    for other in ("Failed", "FailureTarget"):
        if met and other in job.true:
            yield _condition(f"cannot set SuccessCriteriaMet=True and {other}=true conditions")
    if job.spec.get("successPolicy") is not None and "Complete" in job.true and not met:
        yield _condition("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")


def _backwards(job: _Job, before: _Job, rules: WorkloadFeatures) -> Iterator[FieldError]:
    for kind in ("Failed", "Complete", "FailureTarget"):
        if kind in before.true - job.true:
            yield _condition(f"cannot disable the terminal {kind}=True condition")
    spec = job.spec
    scaled = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for name in ("failed",) if scaled else ("failed", "succeeded"):
        if (job.status.get(name) or 0) < (before.status.get(name) or 0):
            text = f"cannot decrease the {name} counter"
            yield invalid(child(_AT, name), job.status.get(name) or 0, text)
    time, start = job["completionTime"], before["startTime"]
    if time is not None and before["completionTime"] is not None and time != before["completionTime"]:
        text = "field is immutable" if rules.status_wording else "completionTime cannot be mutated"
        yield invalid("status.completionTime", time, text)
    # Resuming starts a job again: the condition turns from True to False (registry/batch/job/strategy.go).
    resumes = "Suspended" in before.true and "Suspended" in job.false and not rules.resumed_keeps_start
    if start is not None and start != job["startTime"] and not spec.get("suspend") and not resumes:
        if rules.start_as_removed:
            yield required("status.startTime", "startTime cannot be removed for unsuspended job")
        else:
            yield invalid(
                "status.startTime", job["startTime"], "field is immutable for unsuspended job once set"
            )

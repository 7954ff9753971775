"""Reconciles one cron job: computes when its next job is due and which starts were missed, records the
results of its jobs, starts the one that is due, and cleans up.

Sources: k8s.io/kubernetes/pkg/controller/cronjob/utils.go, 1.36; syncCronJob and cleanupFinishedJobs
(k8s.io/kubernetes/pkg/controller/cronjob), 1.36.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from kubeskew.apimachinery import cron
from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import CRON_JOBS, JOBS
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import parse_timestamp, timestamp
from kubeskew.apimachinery.conditions import is_condition_true
from kubeskew.apimachinery.cron import CronError, Schedule
from kubeskew.apimachinery.errors import StatusError, is_reason
from kubeskew.apimachinery.objects import Object, controller_of
from kubeskew.controllers.framework import owner_references
from kubeskew.controllers.framework.base import SyncError
from kubeskew.controllers.framework.pod_control import is_namespace_terminating
from kubeskew.controllers.job import conditions

_MANY = 100
_DELTA_SECONDS = 0.1  # seconds of delay, so that the clock has certainly passed the time


class DueStarts(NamedTuple):
    """Starts that are due lie after `earliest`; `times` is about how many there are.

    There may be some and no latest one: the search goes back two intervals only.
    """

    earliest: datetime
    latest: datetime | None
    times: int = 0

    @property
    def many(self) -> bool:
        return self.times > _MANY


def missed(
    cron_job: Object, schedule: Schedule, now: datetime, *, deadline: bool = True, even: bool = False
) -> DueStarts:
    """`deadline` leaves out starts before startingDeadlineSeconds.

    With `even`, all starts are taken to be as far apart as the first two (118724). Raises CronError.
    """
    status, spec = cron_job.get("status") or {}, cron_job["spec"]
    text = status.get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"]
    earliest = parse_timestamp(text)
    seconds = spec.get("startingDeadlineSeconds")
    if deadline and seconds is not None:
        earliest = max(earliest, now - timedelta(seconds=seconds))
    first = schedule.next(earliest)
    second = schedule.next(first) if first is not None else None
    if first is None or now < first:
        return DueStarts(earliest, None)
    if second is None or now < second:
        return DueStarts(earliest, first)
    distance = round((second - first).total_seconds())
    if distance < 1:
        raise CronError("time difference between two schedules is less than 1 second")
    count = int((now - first).total_seconds()) // distance + 1
    if even:
        return DueStarts(earliest, first + timedelta(seconds=(count - 1) * distance), count)
    latest, moment = None, schedule.next(first + timedelta(seconds=(count - 2) * distance))
    while moment is not None and moment <= now:
        latest, moment = moment, schedule.next(moment)
    return DueStarts(earliest, latest, count)


def seconds_to_next(
    cron_job: Object, schedule: Schedule, now: datetime, *, even: bool = False
) -> float | None:
    """`even` is that of `missed`; a start that is due now does not count."""
    try:
        found = missed(cron_job, schedule, now, deadline=False, even=even)
    except CronError:
        since = now
    else:
        since = found.latest or (now if found.times else found.earliest)
    due = schedule.next(since)
    return None if due is None else (due - now).total_seconds() + _DELTA_SECONDS


SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_TOO_MANY = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
_FORBIDDEN = "Not starting job because prior execution is running and concurrency policy is Forbid"
_ZONE_IN_SCHEDULE = (
    'CRON_TZ or TZ used in schedule "{}" is not officially supported, '
    "see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
)


class Run:
    def __init__(
        self,
        client: APIClient,
        recorder: EventRecorder,
        cron_job: Object,
        jobs: Sequence[Object],
        now: datetime,
        *,
        annotates: bool,
        overlooks_made_jobs: bool,
        loses_made_jobs: bool,
        even_schedules: bool,
    ) -> None:
        """`annotates`: jobs have an annotation with their scheduled time.

        `overlooks_made_jobs`: the status is left alone if the job exists already (pull request 120649).
        `loses_made_jobs`: an existing job is looked up without its namespace (issue 136918).
        `even_schedules` is the `even` of `missed`.
        """
        self._client = client
        self._recorder = recorder
        self._cron_job = cron_job
        self._jobs = list(jobs)
        self._now = now
        self._annotates = annotates
        self._overlooks_made_jobs = overlooks_made_jobs
        self._loses_made_jobs = loses_made_jobs
        self._even = even_schedules
        self.status: Object = cron_job.setdefault("status", {})
        self.again: float | None = None  # seconds until the next sync

    def _emit(self, kind: str, reason: str, message: str) -> None:
        self._recorder.event(self._cron_job, kind, reason, message)

    async def go(self) -> None:
        """Records the results of the jobs, and starts the one that is due."""
        for job in self._jobs:
            self._note(job)
        await self._forget_missing()
        spec = self._cron_job["spec"]
        if self._cron_job["metadata"].get("deletionTimestamp") or spec.get("suspend"):
            return
        schedule = self._schedule()
        if schedule is None:
            return
        due = self._due(schedule)
        if due is not None:
            await self._start(due)
        self.again = seconds_to_next(self._cron_job, schedule, self._now, even=self._even)

    # -- ended jobs

    def _active(self) -> list[Object]:
        return list(self.status.get("active") or ())

    def _drop(self, uid: str) -> None:
        left = [reference for reference in self._active() if reference["uid"] != uid]
        self.status.pop("active", None)
        if left:
            self.status["active"] = left

    def _note(self, job: Object) -> None:
        metadata = job["metadata"]
        known = any(reference["uid"] == metadata["uid"] for reference in self._active())
        if not known and not conditions.is_finished(job):
            text = f"Saw a job that the controller did not create or forgot: {metadata['name']}"
            self._emit("Warning", "UnexpectedJob", text)
        elif known and conditions.is_finished(job):
            self._drop(metadata["uid"])
            how = conditions.COMPLETE if is_condition_true(job, conditions.COMPLETE) else conditions.FAILED
            text = f"Saw completed job: {metadata['name']}, condition: {how}"
            self._emit("Normal", "SawCompletedJob", text)
        ended = (job.get("status") or {}).get("completionTime")
        if is_condition_true(job, conditions.COMPLETE) and ended:
            last = self.status.get("lastSuccessfulTime")
            if last is None or parse_timestamp(ended) > parse_timestamp(last):
                self.status["lastSuccessfulTime"] = ended

    async def _forget_missing(self) -> None:
        known = {job["metadata"]["uid"] for job in self._jobs}
        for reference in self._active():
            if reference["uid"] in known or await self._live(reference) is not None:
                continue
            self._emit("Normal", "MissingJob", f"Active job went missing: {reference['name']}")
            self._drop(reference["uid"])

    # -- the next job

    def _schedule(self) -> Schedule | None:
        """An invalid spec has no schedule: the result is None, with an event."""
        spec = self._cron_job["spec"]
        text, zone = spec["schedule"], spec.get("timeZone")
        try:
            where = cron.location(zone or "")
        except CronError:
            why = f'invalid timeZone: "{zone}": unknown time zone {zone}'
            self._emit("Warning", "UnknownTimeZone", why)
            return None
        if "TZ" in text:
            self._emit("Warning", "UnsupportedSchedule", _ZONE_IN_SCHEDULE.format(text))
        try:
            return cron.parse(text, where)
        except CronError as error:
            self._emit("Warning", "UnparseableSchedule", f'unparseable schedule: "{text}" : {error}')
            return None

    def _due(self, schedule: Schedule) -> datetime | None:
        """None if no start is due, or its deadline has passed."""
        spec = self._cron_job["spec"]
        try:
            found = missed(self._cron_job, schedule, self._now, even=self._even)
        except CronError as error:
            self._emit("Warning", "InvalidSchedule", f"invalid schedule: {spec['schedule']} : {error}")
            return None
        due = found.latest
        if due is None:
            return None
        if found.many:
            self._emit("Warning", "TooManyMissedTimes", _TOO_MANY)
        deadline = spec.get("startingDeadlineSeconds")
        if deadline is not None and (self._now - due).total_seconds() > deadline:
            text = due.strftime("%a, %d %b %Y %H:%M:%S +0000")
            self._emit("Warning", "MissSchedule", f"Missed scheduled time to start a job: {text}")
            return None
        if any(reference["name"] == self._name_of(due) for reference in self._active()):
            return None
        if self.status.get("lastScheduleTime") == timestamp(due):
            return None
        if spec.get("concurrencyPolicy") == "Forbid" and self._active():
            self._emit("Normal", "JobAlreadyActive", _FORBIDDEN)
            return None
        return due

    def _name_of(self, due: datetime) -> str:
        return f"{self._cron_job['metadata']['name']}-{int(due.timestamp()) // 60}"

    async def _start(self, due: datetime) -> None:
        if self._cron_job["spec"].get("concurrencyPolicy") == "Replace":
            for reference in self._active():
                await self._replace(reference)
        job = self._job(due)
        try:
            made = await self._client.create(JOBS, job)
        except StatusError as error:
            if is_namespace_terminating(error):
                return
            if not is_reason(error, "AlreadyExists"):
                self._emit("Warning", "FailedCreate", f"Error creating job: {error}")
                raise
            if self._overlooks_made_jobs:
                raise
            if self._loses_made_jobs:
                text = "an empty namespace may not be set when a resource name is provided"
                raise SyncError(text) from error  # as client-go refuses such a request
            made = await self._client.get(JOBS, job["metadata"]["name"], job["metadata"]["namespace"])
            if not self._was_forgotten(made):
                return
        else:
            self._emit("Normal", "SuccessfulCreate", f"Created job {made['metadata']['name']}")
        reference = {
            "kind": JOBS.kind,
            "namespace": made["metadata"]["namespace"],
            "name": made["metadata"]["name"],
            "uid": made["metadata"]["uid"],
            "apiVersion": JOBS.api_version,
            "resourceVersion": made["metadata"]["resourceVersion"],
        }
        self.status["active"] = [*self._active(), reference]
        self.status["lastScheduleTime"] = timestamp(due)

    def _was_forgotten(self, job: Object) -> bool:
        """Jobs made by an earlier run that could not write the status belong to the cron job but are not
        active.
        """
        owner = controller_of(job)
        ours = owner is not None and owner["uid"] == self._cron_job["metadata"]["uid"]
        return ours and not any(reference["uid"] == job["metadata"]["uid"] for reference in self._active())

    async def _live(self, reference: Object) -> Object | None:
        try:
            return await self._client.get(JOBS, reference["name"], reference["namespace"])
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    async def _replace(self, reference: Object) -> None:
        job = await self._live(reference)
        if job is None:
            why = f'jobs.batch "{reference["name"]}" not found'
            self._emit("Warning", "FailedGet", f"Get job: {why}")
            raise SyncError(why)
        if not await self._delete(job):
            raise SyncError(f"could not replace job {reference['namespace']}/{reference['name']}")

    def _job(self, due: datetime) -> Object:
        template = self._cron_job["spec"].get("jobTemplate") or {}
        metadata = template.get("metadata") or {}
        annotations = dict(metadata.get("annotations") or {})
        if self._annotates:
            annotations[SCHEDULED] = _zoned(due, self._cron_job["spec"].get("timeZone"))
        made: Object = {
            "name": self._name_of(due),
            "namespace": self._cron_job["metadata"]["namespace"],
            "ownerReferences": [owner_references.new_controller_reference(self._cron_job, CRON_JOBS)],
        }
        made |= {"annotations": annotations} if annotations else {}
        made |= {"labels": dict(metadata["labels"])} if metadata.get("labels") else {}
        return {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "metadata": made,
            "spec": template.get("spec") or {},
        }

    # -- history

    async def clean_up(self) -> None:
        spec = self._cron_job["spec"]
        for kind, limit in (
            (conditions.COMPLETE, spec.get("successfulJobsHistoryLimit")),
            (conditions.FAILED, spec.get("failedJobsHistoryLimit")),
        ):
            found = sorted((job for job in self._jobs if is_condition_true(job, kind)), key=_start)
            for job in found[: max(0, len(found) - int(limit))] if limit is not None else ():
                await self._delete(job)

    async def _delete(self, job: Object) -> bool:
        """Removes the job's reference from the active ones, too; False if the server refused."""
        metadata = job["metadata"]
        try:
            await self._client.delete(JOBS, metadata["name"], metadata["namespace"], propagation="Background")
        except StatusError as error:
            self._emit("Warning", "FailedDelete", f"Deleted job: {error}")
            return False
        self._drop(job["metadata"]["uid"])
        self._emit("Normal", "SuccessfulDelete", f"Deleted job {job['metadata']['name']}")
        return True


def _start(job: Object) -> tuple[bool, str, str]:
    """Jobs that have not started come last."""
    start = (job.get("status") or {}).get("startTime")
    return start is None, start or "", job["metadata"]["name"]


def _zoned(due: datetime, zone: str | None) -> str:
    text = due.astimezone(cron.location(zone or "")).isoformat()
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text

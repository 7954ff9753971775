"""Computes when a cron job's next job is due, and which starts were missed. Pure functions.

Behaviour of k8s.io/kubernetes/pkg/controller/cronjob/utils.go, 1.36.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.cron import CronError, Schedule
from kubeskew.apimachinery.objects import Object

_MANY = 100
_DELTA_SECONDS = 0.1  # seconds of delay, so that the clock has certainly passed the moment


class DueStarts(NamedTuple):
    """The starts that are due: the time from which to look, the latest start, and about how many there are.

    There may be some and no latest one: what is further back than two distances of starts is not found.
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
    """Returns the missed starts; `deadline` leaves out starts before startingDeadlineSeconds.

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
    """Returns the seconds until the next start that is not yet due; `even` as `missed` has it."""
    try:
        found = missed(cron_job, schedule, now, deadline=False, even=even)
    except CronError:
        since = now
    else:
        since = found.latest or (now if found.times else found.earliest)
    due = schedule.next(since)
    return None if due is None else (due - now).total_seconds() + _DELTA_SECONDS

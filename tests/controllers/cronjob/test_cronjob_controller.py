"""Cron jobs: starts, missed starts, concurrency, history; in virtual time."""

import copy

import pytest
from workloads import events_of

from kubeskew.apimachinery import cron
from kubeskew.apimachinery.client.refs import CRON_JOBS, JOBS
from kubeskew.apimachinery.clock import parse_timestamp, timestamp
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.cronjob import run
from kubeskew.controllers.cronjob.controller import CronJobController


def cron_job(schedule="* * * * *", **spec):
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "ns", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "schedule": schedule,
            "concurrencyPolicy": "Allow",
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"spec": {}}}},
            **spec,
        },
    }


@pytest.mark.parametrize(
    ("spec", "now", "latest", "many"),
    [
        ({}, "2026-01-01T00:00:59Z", None, False),
        ({}, "2026-01-01T00:01:00Z", "2026-01-01T00:01:00Z", False),
        ({}, "2026-01-01T00:05:30Z", "2026-01-01T00:05:00Z", False),
        ({}, "2026-01-01T03:05:30Z", "2026-01-01T03:05:00Z", True),
        ({"startingDeadlineSeconds": 90}, "2026-01-01T03:05:30Z", "2026-01-01T03:05:00Z", False),
        ({"startingDeadlineSeconds": 10}, "2026-01-01T03:05:30Z", None, False),
    ],
)
def test_which_start_was_missed(spec, now, latest, many):
    """Only the latest counts; a deadline bounds how far back one looks."""
    made = cron_job(**spec)
    found = run.missed(made, cron.parse(made["spec"]["schedule"]), parse_timestamp(now))

    assert (found.latest and timestamp(found.latest)) == latest
    assert found.many == many


@pytest.mark.parametrize(
    ("now", "even", "latest", "next_look"),
    [
        ("2026-01-02T10:30:00Z", False, "2026-01-02T10:00:00Z", "2026-01-03T09:00:00Z"),
        ("2026-01-02T20:00:00Z", False, None, "2026-01-03T09:00:00Z"),
        ("2026-01-02T20:00:00Z", True, "2026-01-02T20:00:00Z", "2026-01-03T09:00:00Z"),
        ("2026-01-03T08:30:00Z", True, "2026-01-03T08:00:00Z", "2026-01-03T09:00:00Z"),
    ],
)
def test_starts_with_uneven_distances(now, even, latest, next_look):
    """Nobody looks further back than two distances; releases up to 1.27.3 make times up (118724)."""
    made = cron_job("0 9,10 * * *")
    schedule, moment = cron.parse("0 9,10 * * *"), parse_timestamp(now)
    found = run.missed(made, schedule, moment, even=even)

    assert (found.latest and timestamp(found.latest)) == latest
    seconds = (parse_timestamp(next_look) - moment).total_seconds() + 0.1
    assert run.seconds_to_next(made, schedule, moment, even=even) == pytest.approx(seconds)


def test_the_next_look_is_a_little_late():
    """A tenth of a second after the next start."""
    now = parse_timestamp("2026-01-01T00:05:30Z")

    assert run.seconds_to_next(cron_job(), cron.parse("* * * * *"), now) == pytest.approx(30.1)


async def started(cluster, made):
    (controller,) = await cluster.start(CronJobController)
    await cluster.client.create(CRON_JOBS, made)
    return controller


async def jobs(cluster):
    items = (await cluster.client.list(JOBS, "ns"))["items"]
    return sorted(item["metadata"]["name"].removeprefix("tick-") for item in items)


async def status_of(cluster):
    return (await cluster.client.get(CRON_JOBS, "tick", "ns")).get("status") or {}


async def finish(cluster, name, kind="Complete"):
    found = copy.deepcopy(await cluster.client.get(JOBS, f"tick-{name}", "ns"))
    now = timestamp(cluster.environment.clock.now())
    found["status"] = {"startTime": now, "conditions": [{"type": kind, "status": "True"}]}
    found["status"] |= {"completionTime": now} if kind == "Complete" else {}
    await cluster.client.update(JOBS, found, "status")
    await cluster.quiet(0.5)


FIRST = 29453761  # minutes since 1970 at 2026-01-01T00:01Z


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_job_is_started_every_minute(cluster):
    """Named by the minute, owned, annotated; the status follows."""
    controller = await started(cluster, cron_job())
    await cluster.quiet(61)
    (job,) = (await cluster.client.list(JOBS, "ns"))["items"]
    status = await status_of(cluster)

    assert job["metadata"]["name"] == f"tick-{FIRST}"
    assert job["metadata"]["labels"] == {"a": "b"}
    assert job["metadata"]["annotations"] == {
        "batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-01-01T00:01:00Z"
    }
    assert job["metadata"]["ownerReferences"][0]["kind"] == "CronJob"
    assert [one["name"] for one in status["active"]] == [job["metadata"]["name"]]
    assert status["lastScheduleTime"] == "2026-01-01T00:01:00Z"

    await finish(cluster, FIRST)
    status = await status_of(cluster)

    assert "active" not in status
    assert status["lastSuccessfulTime"] >= "2026-01-01T00:01:00Z"
    assert [(reason, message) for _, reason, message in await events_of(cluster, controller)] == [
        ("SuccessfulCreate", f"Created job tick-{FIRST}"),
        ("SawCompletedJob", f"Saw completed job: tick-{FIRST}, condition: Complete"),
    ]


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(
    ("policy", "expected", "reason"),
    [
        ("Allow", [FIRST, FIRST + 1], "SuccessfulCreate"),
        ("Forbid", [FIRST], "JobAlreadyActive"),
        ("Replace", [FIRST + 1], "SuccessfulDelete"),
    ],
)
async def test_concurrency(cluster, policy, expected, reason):
    """A start while the job before still runs is handled as the concurrency policy says."""
    controller = await started(cluster, cron_job(concurrencyPolicy=policy))
    await cluster.quiet(121)

    assert await jobs(cluster) == [str(number) for number in expected]
    assert reason in [event_reason for _, event_reason, _ in await events_of(cluster, controller)]


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(
    ("bug", "further"), [(False, ["SuccessfulDelete"]), (True, ["SawCompletedJob", "SuccessfulDelete"])]
)
async def test_what_is_cleaned_up_is_not_reported_otherwise(make_cluster, bug, further):
    """A job that goes at once is deleted before its end is noted, but up to 1.28 (119776) noted first."""
    cluster = make_cluster(bugs={"k8s-119776": bug})
    controller = await started(cluster, cron_job(successfulJobsHistoryLimit=0))
    await cluster.quiet(61)
    await finish(cluster, FIRST)

    reasons = [reason for _, reason, _ in await events_of(cluster, controller)]
    assert reasons == ["SuccessfulCreate", *further]


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_old_jobs_go(cluster):
    """Beyond the limits the oldest are deleted, failed and successful ones apart."""
    await started(cluster, cron_job(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0))
    await cluster.quiet(60.5)
    for number, kind in enumerate(("Complete", "Failed", "Complete")):
        await finish(cluster, FIRST + number, kind)
        await cluster.quiet(59.5)

    assert await jobs(cluster) == [str(FIRST + 2), str(FIRST + 3)]


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        ({"suspend": True}, "", ""),
        (
            {"schedule": "x"},
            "UnparseableSchedule",
            'unparseable schedule: "x" : expected exactly 5 fields, found 1: [x]',
        ),
        (
            {"timeZone": "No/Where"},
            "UnknownTimeZone",
            'invalid timeZone: "No/Where": unknown time zone No/Where',
        ),
    ],
)
async def test_what_starts_nothing(cluster, spec, reason, message):
    """Suspended, or an event says why not."""
    controller = await started(cluster, cron_job(**{"schedule": "* * * * *", **spec}))
    await cluster.quiet(121)
    recorded = await events_of(cluster, controller)

    assert await jobs(cluster) == []
    assert [(one[1], one[2]) for one in recorded] == ([(reason, message)] if reason else [])


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_nothing_is_said_where_nothing_is_due(cluster):
    """Many starts may have been missed by the distance of the first two, though none is due any more."""
    await cluster.client.create(CRON_JOBS, cron_job("0,1 9 * * *"))
    found = copy.deepcopy(await cluster.client.get(CRON_JOBS, "tick", "ns"))
    found["status"] = {"lastScheduleTime": "2025-12-31T08:00:00Z"}
    await cluster.client.update(CRON_JOBS, found, "status")
    missed = run.missed(found, cron.parse("0,1 9 * * *"), cluster.environment.clock.now())

    (controller,) = await cluster.start(CronJobController)
    await cluster.quiet(1)

    assert (missed.many, missed.latest) == (True, None)
    assert (await jobs(cluster), await events_of(cluster, controller)) == ([], [])


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_job_that_went_is_forgotten(cluster):
    """With an event; one that somebody else made for the cron job is noticed."""
    controller = await started(cluster, cron_job())
    await cluster.quiet(61)
    await cluster.client.delete(JOBS, f"tick-{FIRST}", "ns")
    await cluster.quiet(1)

    assert "active" not in await status_of(cluster)
    assert ("Normal", "MissingJob", f"Active job went missing: tick-{FIRST}") in await events_of(
        cluster, controller
    )


@pytest.mark.asyncio
@pytest.mark.looptime
async def test_a_job_whose_start_could_not_be_noted(make_cluster):
    """A job whose start could not be noted is noted at the next try, and is not started twice."""
    cluster = make_cluster(Version(37))
    await started(cluster, cron_job(concurrencyPolicy="Forbid"))
    lost = []

    def outage(request):
        if request.method != "PUT" or lost:
            return None
        lost.append(request)
        return ConnectionResetError("the server went")

    cluster.server.outage = outage
    await cluster.quiet(119)
    status = await status_of(cluster)

    assert lost
    assert await jobs(cluster) == [str(FIRST)]
    assert [one["name"] for one in status["active"]] == [f"tick-{FIRST}"]
    assert status["lastScheduleTime"] == "2026-01-01T00:01:00Z"


@pytest.mark.asyncio
@pytest.mark.looptime
@pytest.mark.parametrize(
    ("change", "made"),
    [
        ({"schedule": "0 6 1 1 *"}, 0),
        ({"schedule": "0 6 1 1 *", "timeZone": "No/Zone"}, 0),
        ({"suspend": False}, 1),
    ],
)
async def test_a_new_schedule_waits_for_its_next_time(cluster, change, made):
    """Any other change is looked at now, and starts what was missed."""
    idle = cron_job("0 6 2 1 *", suspend=True)
    await started(cluster, idle)
    tick = await cluster.client.get(CRON_JOBS, "tick", "ns")
    tick["status"] = {"lastScheduleTime": "2020-06-01T00:00:00Z"}
    await cluster.client.update(CRON_JOBS, tick, "status")
    await cluster.quiet(1)
    tick = await cluster.client.get(CRON_JOBS, "tick", "ns")
    tick["spec"] |= {"suspend": False, **change}
    await cluster.client.update(CRON_JOBS, tick)
    await cluster.quiet(5)

    assert len((await cluster.client.list(JOBS, "ns"))["items"]) == made

"""Jobs: completions, indexes, failures and how they end; in virtual time."""

import asyncio
import copy
from dataclasses import replace

import pytest
from workloads import LABELS, events_of, pods_by_name, template

from kubeskew.apimachinery.client.refs import JOBS, PODS
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.periods import QUICK, REAL
from kubeskew.apimachinery.versions import Version
from kubeskew.controllers.framework.base import Key
from kubeskew.controllers.framework.pod_controller import TIMEOUT_SECONDS
from kubeskew.controllers.job.controller import JobController

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

FINALIZER = "batch.kubernetes.io/job-tracking"


def job(**spec):
    defaults = {
        "parallelism": 1,
        "backoffLimit": 6,
        "completionMode": "NonIndexed",
        "podReplacementPolicy": "TerminatingOrFailed",
        "selector": {"matchLabels": LABELS},
        "template": template(restartPolicy="Never"),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "work", "namespace": "ns"},
        "spec": {**defaults, **spec},
    }


def indexed(completions, **spec):
    return job(
        **{"completionMode": "Indexed", "completions": completions, "parallelism": completions, **spec}
    )


async def the_job(cluster):
    return await cluster.client.get(JOBS, "work", "ns")


async def status_of(cluster):
    return (await the_job(cluster)).get("status") or {}


async def kinds(cluster):
    found = (await status_of(cluster)).get("conditions") or []
    return [one["type"] for one in found if one["status"] == "True"]


async def end(cluster, pod, phase="Succeeded", code=0, conditions=()):
    """Let a pod end as its kubelet would show it."""
    changed = copy.deepcopy(pod)
    now = timestamp(cluster.environment.clock.now())
    state = {"terminated": {"exitCode": code, "finishedAt": now}}
    changed["status"] = {
        "phase": phase,
        "containerStatuses": [{"name": "c", "restartCount": 0, "state": state}],
        "conditions": list(conditions),
    }
    await cluster.client.update(PODS, changed, "status")
    await cluster.quiet(0.5)


async def running_pods(cluster):
    """Pods that have not ended, by completion index or name."""
    found = {}
    for name, pod in (await pods_by_name(cluster)).items():
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        index = (pod["metadata"].get("annotations") or {}).get("batch.kubernetes.io/job-completion-index")
        found[name if index is None else int(index)] = pod
    return found


async def started(cluster, obj):
    await cluster.start(JobController)
    await cluster.client.create(JOBS, obj)
    await cluster.quiet(1)
    return await running_pods(cluster)


async def test_a_job_runs_to_its_completions(cluster):
    """Parallelism bounds what runs; ended pods are counted and released; the end is reported in two steps."""
    await started(cluster, job(completions=3, parallelism=2))
    ended = 0
    while found := await running_pods(cluster):
        assert len(found) == min(2, 3 - ended)
        assert all(pod["metadata"]["finalizers"] == [FINALIZER] for pod in found.values())
        await end(cluster, next(iter(found.values())))
        ended += 1
    status = await status_of(cluster)

    assert ended == 3
    assert status["succeeded"] == 3
    assert status["uncountedTerminatedPods"] == {}
    assert (status["ready"], status["terminating"], "active" in status) == (0, 0, False)
    assert [
        (condition["type"], condition["reason"], condition["message"]) for condition in status["conditions"]
    ] == [
        ("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods"),
        ("Complete", "CompletionsReached", "Reached expected number of succeeded pods"),
    ]
    assert status["completionTime"] == status["conditions"][1]["lastTransitionTime"]
    assert all(not pod["metadata"].get("finalizers") for pod in (await pods_by_name(cluster)).values())
    assert ("Normal", "Completed", "Job completed") in await events_of(cluster, cluster.controllers[0])


async def test_older_releases_end_in_one_step(make_cluster):
    """Up to 1.30: Complete alone, without a reason."""
    cluster = make_cluster(Version(30))
    found = await started(cluster, job(completions=1))
    await end(cluster, next(iter(found.values())))
    (only,) = (await status_of(cluster))["conditions"]

    assert only["type"] == "Complete"
    assert "reason" not in only


@pytest.mark.parametrize(("policies", "reason"), [(True, "CompletionsReached"), (False, "")])
async def test_completion_has_a_reason_where_policies_are_known(make_cluster, policies, reason):
    """Also where a job ends in one step: the gate of success policies gives its condition a reason."""
    gates = {"JobPodReplacementPolicy": False, "JobManagedBy": False, "JobSuccessPolicy": policies}
    cluster = make_cluster(Version(32), gates=gates)
    found = await started(cluster, job(completions=1))
    await end(cluster, next(iter(found.values())))
    (only,) = (await status_of(cluster))["conditions"]

    assert (only["type"], only.get("reason", "")) == ("Complete", reason)


@pytest.mark.parametrize(("minor", "marked"), [(26, True), (27, False)])
async def test_jobs_that_are_tracked_by_finalizers(make_cluster, minor, marked):
    """1.26 tracks the pods of jobs that its server has marked, 1.27 those of all jobs, also of 1.26's."""
    cluster = make_cluster(Version(minor))
    made = job(completions=1)
    made["metadata"]["annotations"] = {FINALIZER: ""} if marked else {}

    (pod,) = (await started(cluster, made)).values()
    assert pod["metadata"]["finalizers"] == [FINALIZER]
    await end(cluster, pod)

    status = await status_of(cluster)
    assert (status["succeeded"], status["uncountedTerminatedPods"]) == (1, {})
    assert await kinds(cluster) == ["Complete"]


async def test_unmarked_jobs_are_counted_by_their_pods(make_cluster):
    """1.26 counts jobs of later servers by the pods that there are, and takes finalizers off them."""
    cluster = make_cluster(Version(26))
    await cluster.client.create(PODS, made_by_a_later_controller(LABELS))

    found = await started(cluster, job(completions=3, parallelism=2))
    assert [pod["metadata"].get("finalizers") for pod in found.values()] == [None, None]
    assert not (await cluster.client.get(PODS, "later", "ns"))["metadata"].get("finalizers")
    await end(cluster, next(iter(found.values())), "Failed", code=1)
    status = await status_of(cluster)
    assert (status["succeeded"], status["failed"]) == (1, 1)
    assert "uncountedTerminatedPods" not in status

    await cluster.quiet(30)
    for _ in range(2):
        await end(cluster, next(iter((await running_pods(cluster)).values())))
        await cluster.quiet(30)
    status = await status_of(cluster)
    assert (status["succeeded"], status["failed"], await kinds(cluster)) == (3, 1, ["Complete"])


def made_by_a_later_controller(labels):
    """A pod that has succeeded and waits to be counted; it has no owner yet and is adopted."""
    metadata = {"name": "later", "namespace": "ns", "labels": labels, "finalizers": [FINALIZER]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template()["spec"]}
    return {**pod, "status": {"phase": "Succeeded"}}


async def test_without_completions_one_success_is_enough(cluster):
    """The others are left to end by themselves."""
    found = await started(cluster, job(parallelism=2))
    first, second = found.values()
    await end(cluster, first)

    assert len(await running_pods(cluster)) == 1
    assert await kinds(cluster) == []

    await end(cluster, second)

    assert await kinds(cluster) == ["SuccessCriteriaMet", "Complete"]


async def test_indexes(cluster):
    """Annotation, label, host name, environment; an index that succeeded is not run again."""
    found = await started(cluster, indexed(5))
    one = found[3]

    assert sorted(found) == [0, 1, 2, 3, 4]
    assert one["metadata"]["generateName"] == "work-3-"
    assert one["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "3"
    assert one["spec"]["hostname"] == "work-3"
    assert one["spec"]["containers"][0]["env"] == [
        {
            "name": "JOB_COMPLETION_INDEX",
            "valueFrom": {
                "fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}
            },
        }
    ]

    for index in (0, 2, 3, 4):
        await end(cluster, found[index])

    assert (await status_of(cluster))["completedIndexes"] == "0,2-4"

    await end(cluster, found[1])

    assert (await status_of(cluster))["completedIndexes"] == "0-4"
    assert await kinds(cluster) == ["SuccessCriteriaMet", "Complete"]


async def test_failures_wait_longer_and_longer_and_end_the_job(cluster):
    """10 s, 20 s, …; past the limit what still runs is deleted and counted."""
    await started(cluster, job(backoffLimit=1, completions=1))
    (first,) = (await running_pods(cluster)).values()
    await end(cluster, first, "Failed", 1)

    assert await running_pods(cluster) == {}

    await cluster.quiet(10)
    (second,) = (await running_pods(cluster)).values()
    await end(cluster, second, "Failed", 1)
    await cluster.quiet(1)
    status = await status_of(cluster)

    assert status["failed"] == 2
    assert [
        (condition["type"], condition["reason"], condition["message"]) for condition in status["conditions"]
    ] == [
        ("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit"),
        ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"),
    ]
    assert (
        "Warning",
        "BackoffLimitExceeded",
        "Job has reached the specified backoff limit",
    ) in await events_of(cluster, cluster.controllers[0])


async def test_the_deadline_ends_the_job(cluster):
    """A job that is active for longer than its deadline fails, and its pods are deleted."""
    await started(cluster, job(activeDeadlineSeconds=30, parallelism=2))
    await cluster.quiet(31)
    failed = find_condition(await the_job(cluster), "Failed")

    assert (failed["reason"], failed["message"]) == (
        "DeadlineExceeded",
        "Job was active longer than specified deadline",
    )
    assert await pods_by_name(cluster) == {}
    assert (await status_of(cluster))["failed"] == 2


async def test_a_failure_policy_ends_the_job_or_looks_away(cluster):
    """Ignore does not count, FailJob shows which rule it was."""
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]
    spec = {"podFailurePolicy": {"rules": rules}, "podReplacementPolicy": "Failed", "completions": 1}
    (first,) = (await started(cluster, job(**spec))).values()
    await end(cluster, first, "Failed", 137, [{"type": "DisruptionTarget", "status": "True"}])
    await cluster.quiet(10)

    assert (await status_of(cluster)).get("failed", 0) == 0

    (second,) = (await running_pods(cluster)).values()
    await end(cluster, second, "Failed", 42)
    failed = find_condition(await the_job(cluster), "Failed")

    assert failed["reason"] == "PodFailurePolicy"
    assert failed["message"] == (
        f"Container c for pod ns/{second['metadata']['name']} failed with exit code 42 "
        "matching FailJob rule at index 1"
    )


async def test_limits_per_index(cluster):
    """An index fails alone; the replacement of a failed pod counts on; the job ends with the last index."""
    found = await started(cluster, indexed(2, backoffLimit=2**31 - 1, backoffLimitPerIndex=1))
    await end(cluster, found[1])
    await end(cluster, found[0], "Failed", 1)
    await cluster.quiet(11)
    again = (await running_pods(cluster))[0]

    assert found[0]["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "0"
    assert again["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "1"

    await end(cluster, again, "Failed", 1)
    status = await status_of(cluster)

    assert (status["completedIndexes"], status["failedIndexes"], status["failed"]) == ("1", "0", 2)
    assert find_condition(await the_job(cluster), "Failed")["message"] == "Job has failed indexes"


async def test_a_success_policy_ends_the_job_early(cluster):
    """The pods that are left over are deleted, and do not count as failed."""
    policy = {"rules": [{"succeededIndexes": "0,2", "succeededCount": 1}]}
    found = await started(cluster, indexed(3, successPolicy=policy))
    await end(cluster, found[1])

    assert await kinds(cluster) == []

    await end(cluster, found[2])
    await cluster.quiet(1)
    complete = find_condition(await the_job(cluster), "Complete")

    assert (complete["reason"], complete["message"]) == ("SuccessPolicy", "Matched rules at index 0")
    assert await running_pods(cluster) == {}
    assert (await status_of(cluster)).get("failed", 0) == 0


@pytest.mark.parametrize(("version", "ends"), [("1.30.2", True), ("1.30.3", False), ("1.36", True)])
async def test_a_success_policy_needs_its_gate(make_cluster, version, ends):
    """It is not judged with the gate off, but by a controller with bug 125429; later the gate is locked."""
    off = {"JobSuccessPolicy": False} if version != "1.36" else {}
    cluster = make_cluster(Version.parse(version), off)
    await cluster.start(JobController)
    cluster.run_pods()
    found = await started(cluster, indexed(2, successPolicy={"rules": [{"succeededIndexes": "0"}]}))
    await end(cluster, found[0])
    await cluster.quiet(1)

    assert ("Complete" in await kinds(cluster)) is ends


async def test_suspending_and_resuming(cluster):
    """Pods go and come back; the start time is that of the resumption."""
    found = await started(cluster, job(suspend=True))

    assert found == {}
    assert await kinds(cluster) == ["Suspended"]
    assert "startTime" not in await status_of(cluster)

    await cluster.client.patch(JOBS, "work", "ns", {"spec": {"suspend": False}})
    await cluster.quiet(1)
    resumed = find_condition(await the_job(cluster), "Suspended")

    assert len(await running_pods(cluster)) == 1
    assert (resumed["status"], resumed["reason"]) == ("False", "JobResumed")
    assert (await status_of(cluster))["startTime"] == resumed["lastTransitionTime"]

    await cluster.client.patch(JOBS, "work", "ns", {"spec": {"suspend": True}})
    await cluster.quiet(1)

    assert await running_pods(cluster) == {}
    assert (await status_of(cluster)).get("failed", 0) == 0  # nobody counts what was called back
    assert [event for event in await events_of(cluster, cluster.controllers[0]) if "Job " in event[2]] == [
        ("Normal", "Suspended", "Job suspended"),
        ("Normal", "Resumed", "Job resumed"),
    ]


async def test_pods_of_a_job_that_is_gone_are_released(cluster):
    """Pods of a job that is gone lose the finalizer that would hold them."""
    await started(cluster, job(parallelism=2))
    await cluster.client.delete(JOBS, "work", "ns")
    await cluster.quiet(1)

    assert all(not pod["metadata"].get("finalizers") for pod in (await pods_by_name(cluster)).values())


async def test_a_job_of_another_controller_is_left_alone(cluster):
    """managedBy names who acts."""
    assert await started(cluster, job(managedBy="example.com/other")) == {}
    assert await status_of(cluster) == {}


async def test_a_replacement_may_wait_for_the_end_of_a_pod(cluster):
    """podReplacementPolicy Failed: a pod that is being deleted is neither failed nor replaced yet."""
    found = await started(cluster, job(completions=1, podReplacementPolicy="Failed"))
    (first,) = found.values()
    await cluster.client.delete(PODS, first["metadata"]["name"], "ns")
    await cluster.quiet(1)
    status = await status_of(cluster)

    assert list(await running_pods(cluster)) == [first["metadata"]["name"]]
    assert (status["terminating"], status.get("failed", 0)) == (1, 0)

    await end(cluster, (await running_pods(cluster))[first["metadata"]["name"]], "Failed", 137)
    await cluster.quiet(11)

    assert (await status_of(cluster))["failed"] == 1
    assert len(await running_pods(cluster)) == 1


async def test_an_outage_while_pods_are_called_back(cluster):
    """A pod that could not be released during an outage is deleted once the server answers again."""
    await started(cluster, job())
    lost = []

    def outage(request):
        if request.method != "PATCH" or "/pods/" not in request.target or lost:
            return None
        lost.append(request)
        return ConnectionResetError("the server went")

    await cluster.client.patch(JOBS, "work", "ns", {"spec": {"suspend": True}})
    cluster.server.outage = outage
    await cluster.quiet(5)

    assert lost
    assert await running_pods(cluster) == {}


@pytest.mark.parametrize(("bugs", "tracked"), [({"k8s-141329": True}, 2), ({"k8s-141329": False}, 0)])
async def test_finalizers_of_a_deleted_job_are_tried_again(make_cluster, bugs, tracked):
    """Pods of a job that is gone are released in the end, though that fails first; not so with 141329."""
    cluster = make_cluster()
    gates = FeatureGates(cluster.environment.version, {}, bugs)
    cluster.environment = replace(cluster.environment, gates=gates)
    cluster.context = replace(cluster.context, environment=cluster.environment)
    await started(cluster, job(parallelism=2))
    lost = []

    def outage(request):
        if request.method != "PATCH" or "/pods/" not in request.target or len(lost) == 2:
            return None
        lost.append(request)
        return ConnectionResetError("the server went")

    cluster.server.outage = outage
    await cluster.client.delete(JOBS, "work", "ns")
    await cluster.quiet(60)

    found = (await pods_by_name(cluster)).values()
    assert len(lost) == 2
    assert sum(FINALIZER in pod["metadata"].get("finalizers", ()) for pod in found) == tracked


@pytest.mark.parametrize(("version", "pods"), [("1.35", 4), ("1.36", 2)])
async def test_pods_that_nobody_saw_are_made_again_until_1_35(make_cluster, version, pods):
    """With a watch of pods that stands still, expectations run out; only from 1.36 on that makes no more
    pods (137210)."""
    cluster = make_cluster(Version.parse(version))
    (controller,) = await cluster.start(JobController)
    await controller.pods.stop()
    await cluster.client.create(JOBS, job(parallelism=2))
    await asyncio.sleep(TIMEOUT_SECONDS + 1)
    controller.queue.add(Key("ns", "work"))
    await cluster.quiet(60)
    assert len(await pods_by_name(cluster)) == pods


@pytest.mark.parametrize(("version", "pods"), [("1.33", 2), ("1.34", 1), ("1.35", 1), ("1.36", 1)])
async def test_a_job_whose_end_nobody_saw_gets_another_pod_until_1_33(make_cluster, version, pods):
    """With a watch of jobs that stands still, the controller goes by a job that has not ended (130333)."""
    cluster = make_cluster(Version.parse(version))
    (controller,) = await cluster.start(JobController)
    await cluster.client.create(JOBS, job(completions=1))
    await cluster.quiet(2)
    await controller.objects.stop()
    (pod,) = (await pods_by_name(cluster)).values()
    await end(cluster, pod)

    assert "Complete" in await kinds(cluster)
    assert len(await pods_by_name(cluster)) == pods


@pytest.mark.parametrize("spec", [{}, {"backoffLimitPerIndex": 3}])
@pytest.mark.parametrize(("version", "active"), [("1.36.2", 0), ("1.36.3", 1)])
async def test_pods_that_run_are_active_while_another_one_waits(make_cluster, version, active, spec):
    """A failed pod's successor waits; with 139457 the controller counts no pod as active then."""
    cluster = make_cluster(Version.parse(version))
    await cluster.start(JobController)
    await cluster.client.create(JOBS, indexed(2, **spec))
    await cluster.quiet(1)
    one, other = (await pods_by_name(cluster)).values()
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await cluster.client.update(PODS, {**one, "status": ready}, "status")
    await end(cluster, other, "Failed", 1)
    status = await status_of(cluster)

    assert (status.get("active") or 0, status["ready"]) == (active, 1)


@pytest.mark.parametrize(("time", "made"), [(QUICK, 3), (REAL, 2)])
async def test_changes_of_pods_are_gathered(make_cluster, time, made):
    """With upstream's periods a job sees both failures at once, and replaces neither."""
    cluster = make_cluster(time=time)
    (controller,) = await cluster.start(JobController)
    indexed = {"completions": 2, "parallelism": 2, "completionMode": "Indexed"}
    await cluster.client.create(JOBS, job(**indexed, backoffLimit=1))
    await cluster.quiet(5)
    for pod in (await cluster.client.list(PODS, "ns"))["items"]:
        state = {"terminated": {"exitCode": 1, "finishedAt": "2020-01-01T00:00:00Z"}}
        ended = {"phase": "Failed", "containerStatuses": [{"name": "c", "restartCount": 0, "state": state}]}
        await cluster.client.update(PODS, {**pod, "status": ended}, "status")
        await asyncio.sleep(0.5)
    await cluster.quiet(5)

    assert [reason for _, reason, _ in await events_of(cluster, controller)].count("SuccessfulCreate") == made

"""Workload controllers on a real API server of this process, with a kubelet of a few lines."""

import asyncio
import copy

import pytest
from in_process_transport import real_cluster

from kubeskew.apimachinery.client.refs import (
    CONTROLLER_REVISIONS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    STATEFUL_SETS,
)
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.errors import StatusError

pytestmark = pytest.mark.asyncio

LABELS = {"app": "web"}


def workload(ref, name, **spec):
    spec = {"selector": {"matchLabels": LABELS}, "template": template(), **spec}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": metadata, "spec": spec}


def template(image="i:1", **spec):
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": image}], **spec}}


def job(**spec):
    made = workload(JOBS, "work", template=template(restartPolicy="Never"), **spec)
    del made["spec"]["selector"]
    return made


class Kubelet:
    """Pods run, or end at once; deleted ones go."""

    def __init__(self, cluster, phase="Running"):
        self.cluster, self.phase = cluster, phase

    async def run(self):
        while True:
            for pod in (await self.cluster.client.list(PODS, "default"))["items"]:
                await self._look(pod)
            await asyncio.sleep(0.02)

    async def _look(self, pod):
        name, phase = pod["metadata"]["name"], pod["status"].get("phase")
        try:
            if pod["metadata"].get("deletionTimestamp"):
                await self.cluster.client.delete(PODS, name, "default", grace_period=0)
            elif phase == "Pending":
                await self.cluster.client.update(PODS, self._moved(pod), "status")
        except StatusError as error:
            if error.code not in (404, 409):
                raise

    def _moved(self, pod):
        now = timestamp(self.cluster.environment.clock.now())
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
        pod = copy.deepcopy(pod)
        pod["status"] |= {"phase": self.phase, "conditions": [ready] if self.phase == "Running" else []}
        return pod


@pytest.fixture
async def cluster():
    async with real_cluster() as cluster:
        yield cluster


@pytest.fixture
async def run_pods():
    tasks = []

    def run(cluster, phase="Running"):
        tasks.append(asyncio.create_task(Kubelet(cluster, phase).run()))

    yield run
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def status_where(cluster, ref, name, **wanted):
    """The status once it says all this."""

    async def there():
        found = (await cluster.client.get(ref, name, "default")).get("status") or {}
        return found if wanted.items() <= found.items() else None

    return await cluster.until(there)


async def test_a_stateful_set_with_claims(cluster, run_pods):
    """Pods, claims and a revision; a second template rolls over."""
    run_pods(cluster)
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
    made = workload(STATEFUL_SETS, "web", replicas=2, serviceName="web", volumeClaimTemplates=[claim])
    await cluster.client.create(STATEFUL_SETS, made)
    await status_where(cluster, STATEFUL_SETS, "web", readyReplicas=2, updatedReplicas=2)

    assert await cluster.names(PODS, "default") == ["web-0", "web-1"]
    assert await cluster.names(PERSISTENT_VOLUME_CLAIMS, "default") == ["data-web-0", "data-web-1"]

    await cluster.client.patch(STATEFUL_SETS, "web", "default", {"spec": {"template": template("i:2")}})
    status = await status_where(cluster, STATEFUL_SETS, "web", observedGeneration=2, updatedReplicas=2)

    assert len(await cluster.names(CONTROLLER_REVISIONS, "default")) == 2
    assert status["updateRevision"].startswith("web-")


async def test_a_daemon_set_on_two_nodes(cluster, run_pods):
    """Each node's pod is pinned to it; the server counts templates in an annotation."""
    for name in ("n1", "n2"):
        await cluster.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    run_pods(cluster)
    made = await cluster.client.create(DAEMON_SETS, workload(DAEMON_SETS, "agent"))

    assert made["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "1"}

    await status_where(cluster, DAEMON_SETS, "agent", desiredNumberScheduled=2, currentNumberScheduled=2)
    changed = {"spec": {"template": template("i:2")}}
    made = await cluster.client.patch(DAEMON_SETS, "agent", "default", changed)

    assert made["metadata"]["annotations"] == {"deprecated.daemonset.template.generation": "2"}


async def test_a_job_completes(cluster, run_pods):
    """Pods of a job that completes lose their finalizers; deleting the job takes them along."""
    run_pods(cluster, "Succeeded")
    await cluster.client.create(JOBS, job(completions=3, parallelism=2))
    await status_where(cluster, JOBS, "work", succeeded=3)

    async def complete():
        return find_condition(await cluster.client.get(JOBS, "work", "default"), "Complete")

    await cluster.until(complete)
    await cluster.client.delete(JOBS, "work", "default", propagation="Foreground")

    async def empty():
        return not await cluster.names(PODS, "default") and not await cluster.names(JOBS, "default")

    await cluster.until(empty)


async def test_a_running_job_is_deleted_with_its_pods(cluster, run_pods):
    """The finalizer of pods whose job is gone does not hold them."""
    run_pods(cluster)
    await cluster.client.create(JOBS, job(parallelism=2))
    await status_where(cluster, JOBS, "work", active=2)
    await cluster.client.delete(JOBS, "work", "default", propagation="Background")

    async def empty():
        return not await cluster.names(PODS, "default")

    await cluster.until(empty)


async def test_a_cron_job_is_not_due_yet(cluster):
    """Nothing is started before its time, and it is not refused."""
    made = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "yearly", "namespace": "default"},
        "spec": {
            "schedule": "@yearly",
            "jobTemplate": {"spec": {"template": template(restartPolicy="Never")}},
        },
    }
    await cluster.client.create(CRON_JOBS, made)
    await asyncio.sleep(0.1)

    assert await cluster.names(JOBS, "default") == []


async def test_a_budget_asks_the_owner_of_the_uid(cluster):
    """The scale of a pod's owner counts, and not that of another one of its name, nor of one that is gone."""
    made = await cluster.client.create(DEPLOYMENTS, workload(DEPLOYMENTS, "web", replicas=0))
    uid = made["metadata"]["uid"]
    for name, owner, of in (("right", "web", uid), ("other", "web", "former"), ("gone", "none", uid)):
        reference = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": owner,
            "uid": of,
            "controller": True,
        }
        metadata = {"name": name, "labels": {"for": name}, "ownerReferences": [reference]}
        metadata["finalizers"] = ["example.com/kept"]  # from the garbage collector
        await cluster.client.create(PODS, {"metadata": metadata, "spec": template()["spec"]}, "default")
        guard = {"maxUnavailable": 1, "selector": {"matchLabels": {"for": name}}}
        budget = {"metadata": {"name": name, "namespace": "default"}, "spec": guard}
        await cluster.client.create(POD_DISRUPTION_BUDGETS, budget)

    await status_where(cluster, POD_DISRUPTION_BUDGETS, "right", desiredHealthy=0, observedGeneration=1)
    for name in ("other", "gone"):

        async def failed(name=name):
            status = (await cluster.client.get(POD_DISRUPTION_BUDGETS, name, "default")).get("status") or {}
            allowed = find_condition({"status": status}, "DisruptionAllowed")
            return allowed if allowed is not None and allowed["reason"] == "SyncFailed" else None

        assert (await cluster.until(failed))["message"] == f'found no controllers for pod "{name}"'


async def test_a_budget_guards_and_lets_go(cluster, run_pods):
    """The controller's status is what an eviction meets."""
    run_pods(cluster)
    made = workload(STATEFUL_SETS, "web", replicas=2, podManagementPolicy="Parallel", serviceName="web")
    await cluster.client.create(STATEFUL_SETS, made)
    guard = {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": guard}
    budget["metadata"] = {"name": "b", "namespace": "default"}
    await cluster.client.create(POD_DISRUPTION_BUDGETS, budget)
    await status_where(cluster, POD_DISRUPTION_BUDGETS, "b", disruptionsAllowed=1, expectedPods=2)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction"}
    eviction["metadata"] = {"name": "web-0", "namespace": "default"}
    await cluster.client.create(PODS, eviction, name="web-0", subresource="eviction")
    await status_where(cluster, POD_DISRUPTION_BUDGETS, "b", disruptionsAllowed=1, currentHealthy=2)

"""Controllers that end between two of their writes: those that are started next bring it to the end."""

from contextlib import suppress

import aiohttp
import pytest
from in_process_transport import InProcess, RealCluster, real_cluster

from kubeskew.apimachinery.client.refs import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICA_SETS,
    SECRETS,
    SERVICE_ACCOUNTS,
    Ref,
    dra_refs,
)
from kubeskew.apimachinery.versions import Version

pytestmark = pytest.mark.asyncio

DRA = dra_refs(Version(36))
JOBS = Ref("batch", "v1", "jobs", True, "Job")
STATEFUL_SETS = Ref("apps", "v1", "statefulsets", True, "StatefulSet")
DAEMON_SETS = Ref("apps", "v1", "daemonsets", True, "DaemonSet")
VOLUME_CLAIMS = Ref("", "v1", "persistentvolumeclaims", True, "PersistentVolumeClaim")


class Ending(InProcess):
    """Does so many writes, then none; with `unanswered` the last one is stored and not answered."""

    def __init__(self, server, writes, *, unanswered):
        super().__init__(server)
        self._left, self._unanswered, self.ended = writes, unanswered, False

    async def __call__(self, request):
        if request.method == "GET" or "tokenreviews" in request.target:
            return await super().__call__(request)
        if self._left <= 0:
            self.ended = True
            raise aiohttp.ServerDisconnectedError
        self._left -= 1
        answer = await super().__call__(request)
        if self._left == 0 and self._unanswered:
            raise aiohttp.ServerDisconnectedError
        return answer


def pod_spec(**fields):
    return {"containers": [{"name": "c", "image": "i"}], **fields}


def workload(ref, name, pod=None, **spec):
    """An object of that kind, whose pods are labelled with its name."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod or pod_spec()}
    if ref is not JOBS:
        spec["selector"] = {"matchLabels": labels}
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "metadata": metadata,
        "spec": {"template": template, **spec},
    }


def plain(name, namespace="default", **fields):
    """An object of a name, for kinds that ask for no more."""
    return {"metadata": {"name": name, "namespace": namespace}, **fields}


async def make_everything(client):
    """One of each kind of work that takes several writes."""
    await client.create(SERVICE_ACCOUNTS, plain("default"))
    for name in ("n1", "n2"):
        await client.create(NODES, {"metadata": {"name": name}})
    await client.create(DEPLOYMENTS, workload(DEPLOYMENTS, "web", replicas=2))
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volumes = [{"metadata": {"name": "data"}, "spec": storage}]
    sets = {"replicas": 2, "serviceName": "db", "volumeClaimTemplates": volumes}
    await client.create(STATEFUL_SETS, workload(STATEFUL_SETS, "db", podManagementPolicy="Parallel", **sets))
    await client.create(DAEMON_SETS, workload(DAEMON_SETS, "agent"))
    once = pod_spec(restartPolicy="Never")
    await client.create(JOBS, workload(JOBS, "once", once, completions=3, parallelism=3))
    claim = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    await client.create(DRA.claim_templates, plain("t", spec={"spec": claim}))
    wanted = [{"name": "d", "resourceClaimTemplateName": "t"}]
    await client.create(PODS, plain("claimer", spec=pod_spec(resourceClaims=wanted)))
    await client.create(NAMESPACES, {"metadata": {"name": "doomed"}})
    for name in "ab":
        await client.create(CONFIG_MAPS, plain(name, "doomed"))
    await client.delete(NAMESPACES, "doomed")
    for name, propagation in (("foreground", "Foreground"), ("orphaning", "Orphan")):
        owner = await client.create(CONFIG_MAPS, plain(name))
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner["metadata"]["uid"]}
        for number in range(2):
            dependent = plain(f"{name}-{number}")
            dependent["metadata"]["ownerReferences"] = [{**reference, "blockOwnerDeletion": True}]
            await client.create(SECRETS, dependent)
        await client.delete(CONFIG_MAPS, name, "default", propagation=propagation)


async def play_kubelet(client):
    """The pods of the job end well."""
    for pod in (await client.list(PODS, "default", "job-name=once"))["items"]:
        if pod["status"].get("phase") == "Pending" and not pod["metadata"].get("deletionTimestamp"):
            await client.update(PODS, {**pod, "status": {**pod["status"], "phase": "Succeeded"}}, "status")


async def what_is_there(client):
    """Returns what has come of it all, without generated names."""

    async def items(ref, labels=""):
        return (await client.list(ref, "default", labels))["items"]

    async def names(ref, labels=""):
        return sorted(obj["metadata"]["name"] for obj in await items(ref, labels))

    async def counted(ref, labels):
        return len(await items(ref, labels))

    claimer = await client.get(PODS, "claimer", "default")
    recorded = [
        status.get("resourceClaimName") for status in claimer["status"].get("resourceClaimStatuses", ())
    ]
    status = (await client.get(JOBS, "once", "default")).get("status", {})
    job_pods = await items(PODS, "job-name=once")
    namespaces = (await client.list(NAMESPACES))["items"]
    return {
        "replica sets": len(await items(REPLICA_SETS)),
        "pods": {name: await counted(PODS, f"app={name}") for name in ("web", "agent")},
        "db": (await names(PODS, "app=db"), await names(VOLUME_CLAIMS)),
        "job": [
            condition["type"] for condition in status.get("conditions", ()) if condition["status"] == "True"
        ],
        "job pods": (status.get("succeeded"), [bool(pod["metadata"].get("finalizers")) for pod in job_pods]),
        "claim": len(recorded) == 1 and await names(DRA.claims) == recorded,
        "doomed": "doomed" in {namespace["metadata"]["name"] for namespace in namespaces},
        "dependents": {
            secret["metadata"]["name"]: len(secret["metadata"].get("ownerReferences") or ())
            for secret in await items(SECRETS)
        },
        "owners": [name for name in await names(CONFIG_MAPS) if name in ("foreground", "orphaning")],
    }


EXPECTED = {
    "replica sets": 1,
    "pods": {"web": 2, "agent": 2},
    "db": (["db-0", "db-1"], ["data-db-0", "data-db-1"]),
    "job": ["SuccessCriteriaMet", "Complete"],
    "job pods": (3, [False] * 3),
    "claim": True,
    "doomed": False,
    "dependents": {"orphaning-0": 0, "orphaning-1": 0},
    "owners": [],
}
OFTEN = [pytest.param(writes, marks=pytest.mark.slow) for writes in (0, 3, 10, 14, 19, 24, 36, 44)]


@pytest.mark.parametrize("unanswered", [False, True])
@pytest.mark.parametrize("writes", [6, 30, *OFTEN])
async def test_the_next_controllers_finish(writes, unanswered):
    """Nothing is missing, and nothing is there twice."""
    async with real_cluster(started=False) as cluster:
        client = cluster.client
        await make_everything(client)
        ending = Ending(cluster.server, writes, unanswered=unanswered)
        first = RealCluster(cluster.server, cluster.environment, ending)
        await first.start()

        async def has_ended():
            await play_kubelet(client)
            return ending.ended

        await cluster.until(has_ended)
        await first.stop()
        await cluster.start()
        there = {}

        async def all_is_done():
            await play_kubelet(client)
            there.update(await what_is_there(client))
            return there == EXPECTED

        with suppress(TimeoutError):
            await cluster.until(all_is_done)
        assert there == EXPECTED

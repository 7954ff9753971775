"""Requests that write more than once, on a server that ends between two of its writes.

The request comes again, to a server that was started again on the same log: what it wants must come about.
"""

import pytest
from server_in_process import Caller, close_server, open_server

from kubeskew.apiserver.storage.interfaces import StorageError

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
NOW = {"gracePeriodSeconds": 0}


class Cluster:
    """A server over a log in a file; `end_after` n writes it does not write any more."""

    def __init__(self, url):
        self._url = url

    async def start(self):
        self.server = await open_server(url=self._url)
        self.api = Caller(self.server)

    async def restart(self):
        await close_server(self.server)
        await self.start()

    def end_after(self, writes):
        """Refuse every write but the next so many; whether one was refused is in `ended`."""
        log, self.ended = self.server.services.log, False
        append, left = log.append, writes

        async def refuse(change):
            nonlocal left
            if left == 0:
                self.ended = True
                raise StorageError("the server has ended")
            left -= 1
            return await append(change)

        log.append = refuse


@pytest.fixture
async def cluster(tmp_path):
    cluster = Cluster(f"sqlite+aiosqlite:///{tmp_path / 'events.db'}")
    await cluster.start()
    yield cluster
    await close_server(cluster.server)


async def make_pod(api, name="p", finalizers=()):
    """A pod that runs on a node."""
    metadata = {"name": name, "labels": {"app": "web"}, "finalizers": [*finalizers]}
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    made = await api.post(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    assert made.status == 201, made.body
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    assert (await api.patch(f"{PODS}/{name}/status", {"status": status})).status == 200


async def make_budget(api):
    spec = {"minAvailable": 0, "selector": {"matchLabels": {"app": "web"}}}
    await api.post(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    status = {"disruptionsAllowed": 9, "currentHealthy": 9, "desiredHealthy": 0}
    status |= {"observedGeneration": 1, "expectedPods": 9}
    assert (await api.patch(f"{BUDGETS}/b/status", {"status": status})).status == 200


async def force_delete(api):
    return await api.delete(f"{PODS}/p", NOW)


async def shorten(api):
    await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 20})
    return await api.delete(f"{PODS}/p", NOW)


async def delete_plainly(api):
    """Deletes as `kubectl delete` does, which names no grace: of a pod whose grace is up it must suffice."""
    await api.delete(f"{PODS}/p", NOW)
    return await api.delete(f"{PODS}/p")


async def evict(api):
    body = {"metadata": {"name": "p"}, "deleteOptions": NOW}
    return await api.post(f"{PODS}/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", **body})


async def delete_collection(api):
    return await api.delete(PODS, NOW)


@pytest.mark.parametrize("writes", range(5))
@pytest.mark.parametrize("request_", [force_delete, shorten, delete_plainly, evict, delete_collection])
async def test_a_pod_goes_whenever_the_server_ended(cluster, request_, writes):
    """Wherever the end came, a further try removes the pod."""
    await make_pod(cluster.api)
    await make_budget(cluster.api)
    cluster.end_after(writes)
    await request_(cluster.api)
    assert writes or cluster.ended
    await cluster.restart()

    if (await cluster.api.get(f"{PODS}/p")).status == 200:
        await request_(cluster.api)

    assert (await cluster.api.get(f"{PODS}/p")).status == 404


@pytest.mark.parametrize("grace", [None, 0, 30])
async def test_no_grace_is_left(cluster, grace):
    """A pod that is marked with no grace goes by any DELETE, also by one that would give it some."""
    await make_pod(cluster.api)
    cluster.end_after(1)
    assert (await force_delete(cluster.api)).status == 500
    await cluster.restart()
    marked = (await cluster.api.get(f"{PODS}/p")).body["metadata"]
    assert marked["deletionGracePeriodSeconds"] == 0

    answer = await cluster.api.delete(f"{PODS}/p", None if grace is None else {"gracePeriodSeconds": grace})

    assert (answer.status, answer.body["metadata"]["uid"]) == (200, marked["uid"])
    assert (await cluster.api.get(f"{PODS}/p")).status == 404


async def test_a_finalizer_still_keeps_what_has_no_grace_left(cluster):
    """A pod without grace left stays, marked as it was, and goes with its last finalizer."""
    await make_pod(cluster.api, finalizers=["example.com/f"])
    marked = (await force_delete(cluster.api)).body

    again = await cluster.api.delete(f"{PODS}/p")
    assert (again.status, again.body) == (200, marked)
    await cluster.api.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})
    assert (await cluster.api.get(f"{PODS}/p")).status == 404


async def test_less_than_no_grace_is_one_second(cluster):
    """A grace below zero shortens to a second, and does not remove the pod, as upstream's."""
    await make_pod(cluster.api)
    await cluster.api.delete(f"{PODS}/p", {"gracePeriodSeconds": 20})

    shorter = await cluster.api.delete(f"{PODS}/p", {"gracePeriodSeconds": -5})

    assert shorter.body["metadata"]["deletionGracePeriodSeconds"] == 1
    assert (await cluster.api.get(f"{PODS}/p")).status == 200

"""A node in virtual time.

A fake API server that knows graceful deletion, and its kubelet.
"""

import copy
import json
from datetime import timedelta

import pytest
from fake_server import FakeServer
from managed_claims import ManagedClaims
from prometheus_client import CollectorRegistry
from until import until

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.client.refs import NODES, PODS
from kubeskew.apimachinery.client.rest import STRATEGIC_PATCH
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.golang.roundtrip import normalise_and_report
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.apply.patching.strategic import apply_strategic
from kubeskew.kubelet.agent import NodeAgent
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.node.config import NodeConfig
from kubeskew.kubelet.node.status import StartLimiter


class KubeletServer(FakeServer):
    """The client's fake server, with graceful deletion, and with the real patches and schemas."""

    version = Version(36)

    async def _patch(self, target, query, body):
        if self.requests[-1].headers["Content-Type"] != STRATEGIC_PATCH:
            return await super()._patch(target, query, body)
        live = self._found(target)
        assert body.get("metadata", {}).get("uid") in (None, live["metadata"]["uid"])
        catalogue = catalogue_for(self.version, FeatureGates(self.version))
        schema = catalogue.resource("", "v1", target.resource.resource).schema
        patched, dropped = normalise_and_report(apply_strategic(live, body, schema), schema)
        _, unknown = normalise_and_report(copy.deepcopy(live), schema)  # what a newer kubelet has written
        assert not dropped or unknown
        stored = json.loads(json.dumps(patched))  # without what only Go's structs have
        return await self._change(target, stored, None)

    async def _change(self, target, new, resource_version):
        graceful = self._found(target)["metadata"].get("deletionGracePeriodSeconds")
        if not graceful:
            return await super()._change(target, new, resource_version)
        obj = copy.deepcopy(self._found(target))
        if target.subresource == "status":
            obj["status"] = new["status"]
        else:
            obj["metadata"] = new["metadata"]
        return await self._store(target.key, "MODIFIED", obj)

    async def _delete(self, target, query, options):
        found = self._objects.get(target.key)
        grace = options.get("gracePeriodSeconds")
        if target.resource.resource != "pods" or not target.name or grace == 0 or found is None:
            return await super()._delete(target, query, options)
        pod = copy.deepcopy(found)
        seconds = pod["spec"].get("terminationGracePeriodSeconds", 30) if grace is None else grace
        pod["metadata"]["deletionTimestamp"] = timestamp(self._clock.now() + timedelta(seconds=seconds))
        pod["metadata"]["deletionGracePeriodSeconds"] = seconds
        return await self._store(target.key, "MODIFIED", pod)


@pytest.fixture
def server(clock, entropy):
    return KubeletServer(clock, entropy)


class Node:
    """A node under test: its kubelet can be stopped and started, its pods made and looked at."""

    def __init__(self, root, server, client, clock, entropy):
        self.root, self.server, self.client, self.clock = root, server, client, clock
        self._entropy = entropy
        self.agent = None
        self.sockets = None
        self.config = NodeConfig("node-1", capacity={"cpu": "8", "memory": "32Gi", "pods": "110"})

    async def start(self, version="1.36", gates=""):
        environment = self.environment(version, gates)
        self.server.version = environment.version
        metrics = KubeletMetrics(CollectorRegistry())
        self.agent = NodeAgent(
            self.config, self.root, environment, self.client, metrics, sockets=self.sockets
        )
        self.agent.start(StartLimiter(1, 1.0))
        await self.until(lambda: self.agent.ready or self.agent.failure)

    def environment(self, version="1.36", gates=""):
        parsed = Version.parse(version)
        return Environment(parsed, FeatureGates.parse(parsed, gates), self.clock, self._entropy)

    async def stop(self):
        if self.agent is not None:
            agent, self.agent = self.agent, None
            await agent.stop()

    async def kill(self):
        agent, self.agent = self.agent, None
        await agent.kill()

    async def create(self, name="pod-1", *, containers=None, annotations=None, status=None, **spec):
        pod = {
            "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
            "spec": {
                "nodeName": "node-1",
                "containers": containers or [{"name": "main", "image": "nginx"}],
                **spec,
            },
            "status": status or {},
        }
        return await self.client.create(PODS, pod)

    async def pod(self, name="pod-1"):
        return await self.client.get(PODS, name, "default")

    async def node(self):
        return await self.client.get(NODES, "node-1")

    async def delete(self, name="pod-1", **options):
        await self.client.delete(PODS, name, "default", **options)

    async def until(self, check, seconds=1000):
        return await until(check, seconds, every=0.05)

    async def until_pod(self, check, name="pod-1", seconds=1000):
        """The pod, once `check` of its status holds."""

        async def look():
            pod = await self.pod(name)
            return pod if check(pod.get("status") or {}) else None

        return await self.until(look, seconds)

    async def running(self, name="pod-1"):
        return await self.until_pod(lambda status: status.get("phase") == "Running", name)

    async def gone(self, name="pod-1"):
        async def look():
            try:
                await self.pod(name)
            except StatusError as error:
                return error.code == 404
            return False

        await self.until(look)

    async def events(self):
        """(reason, message) of all events so far."""
        from kubeskew.apimachinery.client.refs import EVENTS

        found = await self.client.list(EVENTS)
        return [(event["reason"], event["message"]) for event in found["items"]]


@pytest.fixture
async def node(tmp_path, server, client, clock, entropy):
    node = Node(tmp_path, server, client, clock, entropy)
    yield node
    await node.stop()


@pytest.fixture
def make(server, client, clock, tmp_path):
    """Makes a DRA manager: `make(minor, gates)`."""
    return lambda *args, **kwargs: ManagedClaims(server, client, clock, tmp_path, *args, **kwargs)

"""A small API server in memory with a whole scheduler at it, for tests in virtual time."""

import asyncio
import contextlib

from fake_server import FakeServer
from loop_clock import LoopClock
from prometheus_client import CollectorRegistry, generate_latest

from kubeskew.apimachinery.client.refs import EVENTS_V1, NODES, PODS, dra_refs
from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.scheduler.scheduler import SchedulerService

RESOURCE = "example.com/gpu"
DRIVER = "gpu.example.com"


class Cluster:
    """A fake server with a scheduler at it."""

    def __init__(self, version="1.36", *, settings=None, bugs=None, **gates):
        self.version = Version.parse(version)
        self.refs = dra_refs(self.version)
        clock, entropy = LoopClock(), SeededEntropy(7)
        self.server = FakeServer(clock, entropy)
        self.client = self.server.client()
        self.environment = Environment(self.version, FeatureGates(self.version, gates, bugs), clock, entropy)
        self.connection = self.server.client()  # the scheduler's
        self._settings = settings
        self.begin()

    def begin(self):
        """Makes the scheduler again, as each term in which it leads does."""
        self.registry = CollectorRegistry()
        self.service = SchedulerService(
            self.environment, self.connection, self.registry, settings=self._settings
        )

    async def node(self, name="n0", devices=0, labels=None, **allocatable):
        resources = {"cpu": "4", "memory": "8Gi", "pods": "110", **allocatable}
        labels = {"kubernetes.io/hostname": name, **(labels or {})}
        await self.client.create(
            NODES, {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": resources}}
        )
        if devices:
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            made = [{"name": f"gpu-{i}"} for i in range(devices)]
            spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": made}
            await self.client.create(self.refs.slices, {"metadata": {"name": name}, "spec": spec})

    async def device_class(self, name="gpu", **spec):
        spec = {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}], **spec}
        await self.client.create(self.refs.device_classes, {"metadata": {"name": name}, "spec": spec})

    async def claim(self, name="c0", requests=None, **metadata):
        """Create a claim of one device, unless it shall have other requests (of the v1 shape)."""
        exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
        spec = {"devices": {"requests": requests or [{"name": "r", "exactly": exactly}]}}
        body = {"metadata": {"name": name, **metadata}, "spec": spec}
        return await self.client.create(self.refs.claims, body, "default")

    async def set_claim_status(self, name="c0", **status):
        """Change parts of the claim's status; None takes one away."""
        claim = await self.client.get(self.refs.claims, name, "default")
        changed = {**(claim.get("status") or {}), **status}
        claim["status"] = {key: value for key, value in changed.items() if value is not None}
        return await self.client.update(self.refs.claims, claim, "status")

    async def pod(self, name="p0", requests=None, *, labels=None, status=None, finalizers=None, **spec):
        container = {"name": "c", "resources": {"requests": requests or {}}}
        metadata = {"name": name, "labels": labels or {}, "finalizers": finalizers or []}
        pod = {"metadata": metadata, "spec": {"containers": [container], **spec}, "status": status or {}}
        return await self.client.create(PODS, pod, "default")

    async def read(self, name="p0"):
        return await self.client.get(PODS, name, "default")

    async def node_of(self, name="p0"):
        """Returns the node that the pod goes to; waits until it is bound."""
        async for pod in self._versions(name):
            if pod["spec"].get("nodeName"):
                return pod["spec"]["nodeName"]
        return None

    async def message(self, name="p0"):
        """Returns what the pod's condition says about why it is not scheduled; waits for it."""
        async for pod in self._versions(name):
            for condition in (pod.get("status") or {}).get("conditions") or ():
                return condition["reason"], condition["message"]
        return None

    async def _versions(self, name):
        version = self.server.revision
        yield await self.read(name)
        async for _, pod in self.client.watch(PODS, "default", resource_version=str(version)):
            if pod["metadata"]["name"] == name:
                yield pod

    async def claims(self):
        return (await self.client.list(self.refs.claims))["items"]

    async def events(self, reason):
        """Notes of the events with this reason, oldest first."""
        found = (await self.client.list(EVENTS_V1))["items"]
        return [event["note"] for event in found if event["reason"] == reason]

    def metrics(self):
        return generate_latest(self.registry).decode()

    def fail(self, method, path, times=1):
        """Make the API refuse requests whose method and path (without query) end so."""
        left = [times]

        def outage(request):
            target = request.target.partition("?")[0]
            if request.method == method and path in target.replace("/default", "") and left[0]:
                left[0] -= 1
                return StatusError(500, "InternalError", "out of order")
            return None

        self.server.outage = outage


async def extended(version="1.36", *, settings=None, **gates):
    """With a node of two devices, and a class that names them as an extended resource."""
    cluster = Cluster(version, settings=settings, **gates)
    await cluster.node(devices=2)
    await cluster.device_class(extendedResourceName=RESOURCE)
    return cluster


@contextlib.asynccontextmanager
async def running(cluster):
    cluster.service.start()
    ended = asyncio.Event()
    leading = asyncio.create_task(cluster.service.lead(ended))
    try:
        yield cluster
    finally:
        ended.set()
        await leading
        await cluster.service.stop()

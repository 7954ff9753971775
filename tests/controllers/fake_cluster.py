"""Surroundings of controller tests: virtual time, an API server in memory, and a kubelet of a few lines."""

import asyncio
import copy
from dataclasses import replace

from fake_server import FakeServer
from loop_clock import LoopClock
from until import until

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.clock import SeededEntropy, timestamp
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.periods import QUICK
from kubeskew.apimachinery.versions import DEFAULT_VERSION
from kubeskew.controllers.framework.base import ControllerContext


class Cluster:
    """A server in memory and the controllers that a test starts."""

    def __init__(self, version=DEFAULT_VERSION, gates=None, bugs=None, time=QUICK):
        clock, entropy = LoopClock(), SeededEntropy(1)
        states = FeatureGates(version, gates or {}, bugs)
        self.environment = Environment(version, states, clock, entropy, time=time)
        self.server = FakeServer(clock, entropy)
        self.client = self.server.client()
        self.informers = InformerFactory(self.client, clock, entropy)
        self.context = ControllerContext(self.environment, self.client, self.informers, root_ca="CA")
        self.controllers = []
        self.tasks = []

    async def start(self, *kinds):
        """Start controllers of these classes."""
        self.controllers = [kind(replace(self.context, used=[])) for kind in kinds]
        self.informers.start()
        await self.informers.synced()
        for controller in self.controllers:
            controller.start()
        return self.controllers

    def run_pods(self, *, ready=True):
        """Make every pod run, and let deleted ones go, as a kubelet does."""
        self.tasks.append(asyncio.create_task(self._run_pods(ready)))

    async def _run_pods(self, ready):
        async for kind, pod in self.client.watch(PODS, resource_version="0"):
            if kind == "DELETED" or pod.get("status", {}).get("phase"):
                continue
            pod = copy.deepcopy(pod)
            pod["status"] = running(ready, self.environment.clock.now()) | (pod.get("status") or {})
            try:
                await self.client.update(PODS, pod, "status")
            except StatusError as error:
                if error.code not in (404, 409):
                    raise

    async def until(self, condition, seconds=60):
        """Return what the async `condition` gives, once it gives something true."""
        return await until(condition, seconds, every=0.05)

    async def quiet(self, seconds=0.2):
        """Return when no controller has anything left to do now."""
        await asyncio.sleep(seconds)

    async def stop(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for controller in self.controllers:
            await controller.stop()
        await self.informers.stop()


def running(ready, now):
    return {
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": str(bool(ready)), "lastTransitionTime": timestamp(now)},
        ],
    }

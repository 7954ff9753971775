"""The client's transport straight into an API server of this process."""

from contextlib import asynccontextmanager
from dataclasses import replace

from until import until

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.http.request import Peer, Request
from kubeskew.apiserver.options import ServerOptions
from kubeskew.apiserver.server import APIServer
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.apiserver.storage.store import CachedStore
from kubeskew.controllers.framework.base import ControllerContext
from kubeskew.controllers.manager import CONTROLLERS

MASTER = Peer("admin", ("system:masters",))


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = {name.title(): value for name, value in response.headers}
        self.headers.setdefault("Content-Type", response.content_type)
        self._body = response.body

    async def body(self):
        return self._body if isinstance(self._body, bytes) else b"".join([part async for part in self._body])

    async def lines(self):
        async for chunk in self._body:
            for line in chunk.splitlines():
                if line:
                    yield line

    async def close(self):
        if hasattr(self._body, "aclose"):
            await self._body.aclose()


class InProcess:
    """Calls `server.handle` as the administrator."""

    def __init__(self, server):
        self._server = server

    async def __call__(self, request):
        headers = {name.lower(): value for name, value in request.headers.items()}
        made = Request.of(request.method, request.target, headers, request.body or b"", MASTER)
        return Answer(await self._server.handle(made))

    async def close(self):
        pass


class RealCluster:
    """An API server and the controllers, without sockets."""

    def __init__(self, server, environment, transport=None):
        self.server = server
        self.environment = environment
        self.transport = transport or InProcess(server)
        self.client = APIClient(self.transport, clock=environment.clock, headers={"User-Agent": "test/v1"})
        self.informers = InformerFactory(self.client, environment.clock, environment.entropy)
        self.context = ControllerContext(environment, self.client, self.informers, root_ca="CA")
        self.controllers = []

    async def start(self):
        """Start every controller whose gate is on."""
        kinds = [kind for kind, condition in CONTROLLERS if condition.value(self.environment.gates)]
        self.controllers = [kind(replace(self.context, used=[])) for kind in kinds]
        self.informers.start()
        await self.informers.synced()
        for controller in self.controllers:
            controller.start()
        await self.until(lambda: all(controller.ready for controller in self.controllers))

    async def until(self, condition, seconds=45):
        """Return what `condition` (async or not) gives, once it gives something true."""
        return await until(condition, seconds, every=0.02)

    async def names(self, ref, namespace):
        items = (await self.client.list(ref, namespace))["items"]
        return sorted(item["metadata"]["name"] for item in items)

    async def stop(self):
        for controller in self.controllers:
            await controller.stop()
        await self.informers.stop()


@asynccontextmanager
async def real_cluster(version=None, gates=None, *, started=True, runtime_config=None):
    """A server of the version over a store in memory, with all controllers running on it, if `started`."""
    version = version or Version(36)
    environment = Environment(version, FeatureGates(version, gates or {}), SystemClock(), SeededEntropy(1))
    url = "sqlite+aiosqlite://"
    event_log = await SQLLog.open(url, environment.clock)
    store = await CachedStore.open(event_log, environment.clock)
    options = ServerOptions(storage_url=url, runtime_config=runtime_config or {})
    server = APIServer(options, environment, store, event_log)
    await server.bootstrap()
    cluster = RealCluster(server, environment)
    try:
        if started:
            await cluster.start()
        yield cluster
    finally:
        await cluster.stop()
        await server.end()
        await store.close()

"""A node of 1.29+kep4381 with one driver, for tests of its resources and of its claims."""

import contextlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from fake_server import FakeServer
from prometheus_client import CollectorRegistry
from until import until

from kubeskew.apimachinery.client.refs import NODES, dra_refs
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.dra.classic.manager import ClassicSocketPlugin, HandleUse
from kubeskew.kubelet.dra.classic.node_resources import NodeResources
from kubeskew.kubelet.dra.classic.semantic_resources import SEMANTIC_RESOURCES
from kubeskew.kubelet.dra.plugin import ClaimRef
from kubeskew.kubelet.drivers.claims import CallLog, PreparedClaims
from kubeskew.kubelet.drivers.classic.services import services_of
from kubeskew.kubelet.drivers.semantic.services import SemanticServices
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.protocols import grpc_calls

DRIVER = "cards.dra.example.com"
PREVIEW = Version.parse("1.29+kep4381")
SLICES = dra_refs(PREVIEW).slices
METADATA = {
    "versions": [{"name": "API", "version": "v3.2.1"}],
    "labels": [{"name": "SupportsPowerSaving"}, {"name": "Color", "value": "Red"}],
    "values": [{"name": "LengthInCentimeters", "quantity": 100}],
}
CARD = {
    "id": "CardA",
    "name": "CardA",
    "attributes": [
        {"name": "meta", "metadata": METADATA},
        {"name": "RAM", "counter": {"count": 1000000}},
        {"name": "ComputeUnits", "counter": {"count": 100}},
    ],
}


def card(name, **counts):
    return {"id": name, "attributes": [{"name": n, "counter": {"count": c}} for n, c in counts.items()]}


def handle(resource="CardA", claim=None, of_class=None, **counts):
    """A handle as the scheduler writes it."""
    allocations = [
        {"counter": {"resourceID": resource, "name": name, "count": count}} for name, count in counts.items()
    ]
    data = {"nodeName": "node-1", "resourceID": resource, "allocations": allocations}
    if claim is not None:
        data["claimParameters"] = claim
    if of_class is not None:
        data["classParameters"] = of_class
    return {"driverName": DRIVER, "semanticData": data}


class Node:
    """A kubelet's parts for one driver over a real socket, and a server in memory."""

    def __init__(self, directory):
        clock = SystemClock()
        self.server = FakeServer(clock, SeededEntropy(1))
        self.client = self.server.client()
        self.refused = []
        self.resources = NodeResources(
            self.client, clock, SLICES, "node-1", SEMANTIC_RESOURCES, refused=self.refused.append
        )
        self.offers = [CARD]
        self.directory = directory
        self.claims = PreparedClaims(DRIVER, directory / "prepared.json", directory)
        calls = CallLog(directory, clock)
        self.services = SemanticServices(DRIVER, self.claims, calls, lambda: self.offers)
        socket = directory / "d.sock"
        self.socket = socket
        self.plugin = ClassicSocketPlugin(
            DRIVER, str(socket), "v1alpha3", clock, KubeletMetrics(CollectorRegistry())
        )

    async def serve(self):
        server = grpc_calls.new_server()
        self.services.serve(server, services_of(PREVIEW, ()))
        server.listen(self.socket)
        await server.start()
        return server

    def offer(self, *resources):
        self.offers = list(resources)
        self.services.report()

    async def published(self, *ids):
        """Waits until the slices hold just these resources, in all; returns the slices."""

        async def holds():
            slices = (await self.client.list(SLICES))["items"]
            found = [entry["id"] for obj in slices for entry in obj["resources"]]
            return sorted(found) == sorted(ids) and (slices or True)

        return await until(holds)

    async def prepare(self, uid, of):
        """Returns what the driver answers for a claim."""
        answers = await self.plugin.prepare([HandleUse(ClaimRef("ns", f"claim-{uid}", uid), of)])
        return answers[uid]

    def environment(self, uid):
        content = json.loads((self.directory / f"{DRIVER}-{uid}.json").read_text())
        return dict(entry.split("=", 1) for entry in content["devices"][0]["containerEdits"]["env"])


@contextlib.asynccontextmanager
async def serving_node():
    """A node with its driver, nothing published yet."""
    async with contextlib.AsyncExitStack() as stack:
        made = Node(Path(stack.enter_context(TemporaryDirectory())))
        await made.client.create(NODES, {"metadata": {"name": "node-1"}})
        server = await made.serve()
        stack.push_async_callback(server.stop, 0)
        stack.push_async_callback(made.plugin.close)
        stack.push_async_callback(made.resources.stop)
        yield made

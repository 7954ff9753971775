"""DRA drivers behind sockets: a whole node in real time, with a driver of the test's own."""

import asyncio
import inspect
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
import pytest
from prometheus_client import CollectorRegistry
from until import until

from kubeskew.apimachinery.client.refs import dra_refs
from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.cdi import write_spec
from kubeskew.kubelet.dra.plugin import ClaimRef, PluginError
from kubeskew.kubelet.dra.socket_plugin import SocketPlugin
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.node.config import NodeLayout
from kubeskew.kubelet.pods.sync_periods import SyncPeriods
from kubeskew.kubelet.protocols import dra, grpc_calls, registration
from kubeskew.kubelet.protocols.grpc_calls import RpcError

DRIVER = "gpu.example.com"


class SocketDriver:
    """A driver that serves registration, one version of DRA and health; prepares `gpu-0` for every claim."""

    def __init__(self, layout, version="v1.DRAPlugin", services=None, suffix=""):
        self.layout, self.service = layout, dra.REGISTERED[version]
        self.notices, self.calls, self.answers = [], [], {}
        self.devices = asyncio.Queue()  # of the health stream
        self._versions = services or [version, "v1alpha1.DRAResourceHealth"]
        directory = layout.plugins / DRIVER
        directory.mkdir(exist_ok=True)
        self.endpoint = directory / f"dra{suffix}.sock"
        self.registrar = layout.registry / f"{DRIVER}{suffix}-reg.sock"

    async def start(self):
        self._plugin, self._registration = grpc_calls.new_server(), grpc_calls.new_server()
        self.service.prepare.serve(self._plugin, self._prepare)
        self.service.unprepare.serve(self._plugin, self._unprepare)
        dra.HEALTH_V1ALPHA1.watch.serve(self._plugin, self._watch)
        registration.GET_INFO.serve(self._registration, self._info)
        registration.NOTIFY.serve(self._registration, self._notify)
        for server, socket in ((self._plugin, self.endpoint), (self._registration, self.registrar)):
            server.listen(socket)
            await server.start()
        return self

    async def stop(self):
        """Stops as a driver that ends in order: its sockets go."""
        await self.crash()
        self.registrar.unlink(missing_ok=True)
        self.endpoint.unlink(missing_ok=True)

    async def crash(self):
        """Ends the driver; its sockets stay, with nobody behind them."""
        await asyncio.gather(self._registration.stop(None), self._plugin.stop(None))

    async def registered(self):
        return (await until(lambda: self.notices))[-1]

    async def _info(self, request):
        return registration.PluginInfo(
            type="DRAPlugin", name=DRIVER, endpoint=str(self.endpoint), supported_versions=self._versions
        )

    async def _notify(self, status):
        self.notices.append((status.plugin_registered, status.error))
        return registration.RegistrationStatusResponse()

    async def _prepare(self, request):
        self.calls.append(("prepare", sorted(claim.name for claim in request.claims)))
        if "prepare" in self.answers:
            answer = self.answers["prepare"](request)
            return await answer if inspect.isawaitable(answer) else answer
        answer = self.service.prepare.response()
        for claim in request.claims:
            cdi_id = f"{DRIVER}/claim={claim.uid}"
            write_spec(self.layout.cdi / f"{claim.uid}.json", f"{DRIVER}/claim", {claim.uid: {"GPU": "0"}})
            answer.claims[claim.uid].devices.add(
                pool_name="node-1", device_name="gpu-0", request_names=["req"], cdi_device_ids=[cdi_id]
            )
        return answer

    async def _unprepare(self, request):
        self.calls.append(("unprepare", sorted(claim.name for claim in request.claims)))
        answer = self.service.unprepare.response()
        for claim in request.claims:
            answer.claims[claim.uid].SetInParent()
        return answer

    async def _watch(self, request):
        while True:
            health = await self.devices.get()
            messages = dra.HEALTH_V1ALPHA1.messages
            device = messages.DeviceIdentifier(pool_name="node-1", device_name="gpu-0")
            yield messages.NodeWatchResourcesResponse(
                devices=[messages.DeviceHealth(device=device, health=health, message="hot")]
            )


@pytest.fixture
async def node(node):
    """Gives a node whose sockets are in a short directory."""
    with TemporaryDirectory(prefix="ks") as made:
        node.sockets = Path(made)
        yield node
        await node.stop()


@pytest.fixture
def layout(node):
    made = NodeLayout.under(node.root, "node-1", node.sockets)
    made.make()
    return made


@pytest.fixture
async def drivers():
    """Makes drivers that end with the test."""
    made = []

    async def make(*args, **kwargs):
        made.append(await SocketDriver(*args, **kwargs).start())
        return made[-1]

    yield make
    for driver in made:
        await driver.stop()


async def claimed_pod(node, *claims, name="pod-1", minor=36):
    """A pod that uses claims, which are allocated and reserved for it."""
    refs = dra_refs(Version(minor))
    entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    uses = [{"name": claim, "request": "req"} for claim in claims]
    containers = [{"name": "main", "image": "x", "resources": {"claims": uses}}]
    made = await node.create(name, containers=containers, resourceClaims=entries)
    for claim in claims:
        result = {"driver": DRIVER, "pool": "node-1", "device": "gpu-0", "request": "req"}
        user = {"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}
        allocation = {"devices": {"results": [result]}}
        body = {
            "metadata": {"name": claim, "namespace": "default"},
            "status": {"reservedFor": [user], "allocation": allocation},
        }
        await node.client.create(refs.claims, body)
    return made


def environment(node, pod="pod-1"):
    return next(c["env"] for c in node.agent.containers() if c["pod"] == pod and c["running"])


@pytest.mark.parametrize(
    ("version", "service"),
    [
        ("1.36", "v1.DRAPlugin"),
        ("1.36", "v1beta1.DRAPlugin"),
        ("1.33", "v1beta1.DRAPlugin"),
        ("1.32", "v1alpha3.Node"),
    ],
)
async def test_a_pod_gets_what_a_driver_prepares(node, layout, drivers, version, service):
    """Registration, one call for both claims, devices in the container, one call at the end."""
    minor = Version.parse(version).minor
    driver = await drivers(layout, service)
    await node.start(version, "DynamicResourceAllocation=true")
    assert await driver.registered() == (True, "")
    await claimed_pod(node, "a", "b", minor=minor)
    await node.running()
    assert environment(node)["GPU"] == "0"
    await node.delete()
    await node.gone()
    assert driver.calls == [("prepare", ["a", "b"]), ("unprepare", ["a", "b"])]


async def test_a_container_sees_what_the_spec_asks_for(node, layout, drivers):
    """The kubelet's own page has the device files and mounts of a container."""
    driver = await drivers(layout)
    library = layout.node / "lib"

    def prepare(request):
        (uid,) = (claim.uid for claim in request.claims)
        edits = {
            "deviceNodes": [{"path": "/dev/gpu0", "permissions": "rw"}],
            "mounts": [{"hostPath": str(library), "containerPath": "/usr/lib/gpu", "options": ["ro"]}],
        }
        devices = [{"name": "zero", "containerEdits": edits}]
        spec = {"cdiVersion": "0.6.0", "kind": f"{DRIVER}/gpu", "devices": devices}
        (layout.cdi / "gpu.json").write_text(json.dumps(spec))
        answer = driver.service.prepare.response()
        answer.claims[uid].devices.add(
            pool_name="node-1", device_name="gpu-0", cdi_device_ids=[f"{DRIVER}/gpu=zero"]
        )
        return answer

    driver.answers["prepare"] = prepare
    await node.start()
    await driver.registered()
    await claimed_pod(node, "a")
    await node.running()
    (container,) = node.agent.containers()
    assert container["devices"] == [{"path": "/dev/gpu0", "host_path": "/dev/gpu0", "permissions": "rw"}]
    assert container["mounts"] == [{"path": "/usr/lib/gpu", "host_path": str(library), "read_only": True}]


async def test_a_refused_driver_learns_why(node, layout, drivers):
    """1.36 knows no alpha service."""
    driver = await drivers(layout, "v1alpha3.Node")
    await node.start("1.36")
    text = (
        "RegisterPlugin error -- plugin validation failed with err: invalid supported gRPC versions of DRA "
        f"driver plugin {DRIVER} at endpoint {driver.endpoint}: none of services supported by the plugin "
        '(["v1alpha3.Node" "v1alpha1.DRAResourceHealth"]) are supported by the kubelet '
        '(["v1.DRAPlugin" "v1beta1.DRAPlugin"])'
    )
    assert await driver.registered() == (False, text)


async def test_a_restarted_kubelet_finds_the_driver_and_the_claims(node, layout, drivers):
    """Nothing is prepared again for a pod that runs; its end is asked to the driver."""
    driver = await drivers(layout)
    await node.start()
    await driver.registered()
    await claimed_pod(node, "a")
    await node.running()
    await node.kill()
    driver.notices.clear()
    await node.start()
    await driver.registered()
    assert node.agent.prepared() == {DRIVER: [node.agent.prepared()[DRIVER][0]]}
    await node.delete()
    await node.gone()
    assert driver.calls == [("prepare", ["a"]), ("unprepare", ["a"])]


async def test_a_rolling_update_needs_no_pause(node, layout, drivers):
    """Two plugins of a driver at a time: the newer is called, and alone once the older has left."""
    old = await drivers(layout, suffix="-old")
    await node.start()
    await old.registered()
    new = await drivers(layout, suffix="-new")
    await new.registered()
    await claimed_pod(node, "a")
    await node.running()
    await old.stop()
    await node.delete()
    await node.gone()
    assert (old.calls, new.calls) == ([], [("prepare", ["a"]), ("unprepare", ["a"])])


async def test_a_driver_that_leaves_during_a_call_is_asked_again(node, layout, drivers, monkeypatch):
    """A pod whose driver leaves during a call is informed that the call failed, and goes on once the
    driver is back.
    """
    monkeypatch.setattr(SyncPeriods, "after", lambda _periods, _end: 0.1)
    driver, asked = await drivers(layout), asyncio.Event()

    async def hang(request):
        asked.set()
        await asyncio.Event().wait()

    driver.answers["prepare"] = hang
    await node.start()
    await driver.registered()
    await claimed_pod(node, "a")
    await asked.wait()
    driver.registrar.unlink()
    failed = (
        "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources: "
        "rpc error: code = Canceled desc = grpc: the client connection is closing"
    )

    async def answered():
        return ("FailedPrepareDynamicResources", failed) in await node.events()

    await node.until(answered, seconds=20)
    await driver.stop()
    driver.answers.clear()
    await driver.start()
    await node.running()


async def test_health_is_reported_in_the_pods_status(node, layout, drivers):
    """The health of a device in the driver's stream is shown in the status of its container."""
    driver = await drivers(layout)
    await node.start("1.36")
    await driver.registered()
    await claimed_pod(node, "a")
    await node.running()

    def health(status):
        resources = status["containerStatuses"][0].get("allocatedResourcesStatus")
        return resources and resources[0]["resources"][0]["health"]

    for number, name in ((1, "Healthy"), (2, "Unhealthy")):
        driver.devices.put_nowait(number)
        pod = await node.until_pod(lambda status, name=name: health(status) == name, seconds=10)
    (entry,) = pod["status"]["containerStatuses"][0]["allocatedResourcesStatus"]
    assert entry["name"] == "claim:a/req"
    assert entry["resources"][0]["resourceID"].startswith(f"{DRIVER}/claim=")


# -- calls


@pytest.fixture
def metrics():
    return KubeletMetrics(CollectorRegistry())


@pytest.fixture
async def plugin(layout, drivers, metrics):
    """A client of a driver, and the driver."""
    driver = await drivers(layout)
    made = SocketPlugin(DRIVER, str(driver.endpoint), "v1.DRAPlugin", SystemClock(), metrics, timeout=0.5)
    made.server = driver
    yield made
    await made.close()


def refused(request):
    raise RpcError(grpc.StatusCode.FAILED_PRECONDITION, "no driver loaded")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (refused, "rpc error: code = FailedPrecondition desc = no driver loaded"),
        (lambda request: 1 / 0, "rpc error: code = Unknown desc = Unexpected <class 'ZeroDivisionError'>"),
    ],
)
async def test_a_failed_call_is_reported_in_gos_words(plugin, answer, text):
    """Whatever a driver's server makes of its failure."""
    plugin.server.answers["prepare"] = answer
    with pytest.raises(PluginError, match=f"^{text}"):
        await plugin.node_prepare_resources([ClaimRef("default", "a", "u")])


async def test_a_slow_driver_is_given_up(plugin, metrics):
    """After the time for a call the pod waits for its next turn; the call is counted by its code."""

    async def forever(request):
        await asyncio.Event().wait()

    plugin.server._prepare = forever
    await plugin.server.stop()
    await plugin.server.start()
    with pytest.raises(PluginError, match=r"code = DeadlineExceeded desc = context deadline exceeded$"):
        await plugin.node_prepare_resources([ClaimRef("default", "a", "u")])
    path = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources"
    labels = (DRIVER, path, "DeadlineExceeded")
    assert metrics.dra_grpc_operations_duration.labels(*labels)._sum.get() > 0


async def test_a_driver_that_dies_in_a_call_fails_it(plugin):
    """The call ends with the connection, and later ones with the dial; a new driver is found."""
    asked = asyncio.Event()

    async def hang(request):
        asked.set()
        await asyncio.Event().wait()

    working, plugin.server._prepare = plugin.server._prepare, hang
    await plugin.server.stop()
    await plugin.server.start()

    async def prepare():
        """The first call after the start may still meet the connection that ended before."""
        while True:
            try:
                return await plugin.node_prepare_resources([ClaimRef("default", "a", "u")])
            except PluginError:
                if asked.is_set():
                    raise
                await asyncio.sleep(0.01)

    call = asyncio.create_task(prepare())
    await asked.wait()
    await plugin.server.stop()
    with pytest.raises(PluginError, match=r"code = Unavailable desc = error reading from server: EOF$"):
        await call
    plugin.server._prepare = working
    await plugin.server.start()
    async with asyncio.timeout(30):
        while True:
            try:
                answers = await plugin.node_prepare_resources([ClaimRef("default", "a", "u")])
                break
            except PluginError:
                await asyncio.sleep(0.05)
    assert answers["u"][0].device == "gpu-0"


async def test_garbage_is_no_answer(layout, plugin):
    """Bytes that are no message fail the call."""
    path = layout.plugins / "garbage.sock"
    server = grpc_calls.new_server()

    async def garbage(_: bytes) -> bytes:
        return b"\xff\xff\xff"

    server.add(dra.V1.name, "NodePrepareResources", garbage)
    server.listen(path)
    await server.start()
    broken = SocketPlugin(DRIVER, str(path), "v1.DRAPlugin", SystemClock(), plugin._metrics)
    with pytest.raises(
        PluginError, match="code = Internal desc = grpc: failed to unmarshal the received message"
    ):
        await broken.node_prepare_resources([ClaimRef("default", "a", "u")])
    await broken.close()
    await server.stop(None)

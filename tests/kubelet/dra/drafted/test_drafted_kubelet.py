"""The kubelet of KEP-3063's draft prepares claims by UID, with the example driver behind a real socket."""

import asyncio
import contextlib
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import pytest
from fake_server import FakeServer
from prometheus_client import CollectorRegistry

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.client.refs import dra_refs
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.device_managers import DeviceError
from kubeskew.kubelet.dra.checkpoint import CheckpointFile
from kubeskew.kubelet.dra.claims import ClaimCache
from kubeskew.kubelet.dra.drafted.manager import DraftedDRAManager, DraftedSocketPlugin
from kubeskew.kubelet.dra.generations import generation_of
from kubeskew.kubelet.dra.plugin import PluginRegistry
from kubeskew.kubelet.drivers.claims import CallLog, PreparedClaims
from kubeskew.kubelet.drivers.drafted.services import DraftedServices
from kubeskew.kubelet.drivers.switches import Switches
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.protocols import grpc_calls

pytestmark = pytest.mark.asyncio

DRIVER = "gpu.acme.com"
DRAFT = Version(25, "kep3063")
CLAIMS = dra_refs(DRAFT).claims


class HandClock:
    """A clock that stands still until it is moved."""

    def __init__(self):
        self.seconds = 0.0

    def monotonic(self):
        return self.seconds


class Node:
    """A node's DRA manager, a driver, and a server in memory."""

    def __init__(self, directory):
        self.directory, clock = directory, SystemClock()
        self.server = FakeServer(clock, SeededEntropy(1))
        self.client = self.server.client()
        self.clock = HandClock()
        self.plugins = PluginRegistry("plugin name {driver} not found in the list of registered DRA plugins")
        prepared = PreparedClaims(DRIVER, directory / "prepared.json", directory)
        self.services = DraftedServices(prepared, self.find, CallLog(directory, clock))
        self.grpc = grpc_calls.new_server()
        self.services.serve(self.grpc)
        self.grpc.listen(directory / "d.sock")
        metrics = KubeletMetrics(CollectorRegistry())
        self.plugin = DraftedSocketPlugin(DRIVER, str(directory / "d.sock"), "v1", clock, metrics)
        self.restart()

    def restart(self):
        """Begin with a kubelet that has the checkpoint alone."""
        self.cache = ClaimCache(CheckpointFile(self.directory, generation_of(FeatureGates(DRAFT)).codec))
        self.cache.load()
        self.manager = DraftedDRAManager(self.client, CLAIMS, self.plugins, self.cache, self.clock)

    async def find(self, uid):
        claims = (await self.client.list(CLAIMS))["items"]
        return next((claim for claim in claims if claim["metadata"]["uid"] == uid), None)

    async def claim(self, name="c", *, reserved=("p",), phase="Allocated", **metadata):
        users = [{"apiVersion": "v1", "kind": "Pod", "name": user, "uid": user} for user in reserved]
        attributes = {"node": "n", "device": "gpu-0", "user_a": "1"}
        status = {"phase": phase, "driverName": DRIVER, "attributes": attributes, "userLimit": -1}
        body = {
            "metadata": {"name": name, "namespace": "ns", **metadata},
            "spec": {"resourceClassName": "gpu"},
            "status": {**status, "reservedFor": users},
        }
        return await self.client.create(CLAIMS, body)

    async def users(self, name="c"):
        claim = await self.client.get(CLAIMS, name, "ns")
        return [user["name"] for user in claim["status"].get("reservedFor") or ()]

    def called(self):
        path = self.directory / "calls.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        noted = [orjson.loads(line) for line in lines]
        return [call["call"].removeprefix("Node").removesuffix("Resource") for call in noted]


def pod(name="p", claim="c", *, template=False):
    source = {"template": {"spec": {}}} if template else {"resourceClaimName": claim}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {
            "resourceClaims": [{"name": "gpu", **source}],
            "containers": [{"name": "main", "resources": {"claims": ["gpu"]}}, {"name": "other"}],
        },
    }


@pytest.fixture
async def node():
    """A node whose driver is registered."""
    async with contextlib.AsyncExitStack() as stack:
        made = Node(Path(stack.enter_context(TemporaryDirectory())))
        await made.grpc.start()
        stack.push_async_callback(made.grpc.stop, 0)
        stack.push_async_callback(made.plugin.close)
        made.plugins.register(made.plugin)
        yield made


def ids_of(node, of_pod, container=0):
    return list(node.manager.for_container(of_pod, of_pod["spec"]["containers"][container]).cdi_ids)


async def test_a_claim_is_prepared_and_given_back_before_the_reservation_goes(node):
    """Only the container that names it gets its CDI device."""
    claim = await node.claim()
    await node.manager.prepare(pod())

    assert ids_of(node, pod()) == [f"{DRIVER}/claim={claim['metadata']['uid']}"]
    assert ids_of(node, pod(), 1) == []
    spec = orjson.loads((node.directory / f"{DRIVER}-{claim['metadata']['uid']}.json").read_text())
    variables = spec["devices"][0]["containerEdits"]["env"]
    assert {"user_a=1", "gpu_acme_com_device=gpu-0"} <= set(variables)

    await node.manager.unprepare(pod())
    assert node.called() == ["Prepare", "Unprepare"]
    assert await node.users() == []


async def test_preparing_and_unpreparing_may_be_repeated(node):
    """One call for two pods on the node; the last one gives the claim back."""
    await node.claim(reserved=("p", "q"))
    for name in ("p", "p", "q"):
        await node.manager.prepare(pod(name))
    assert node.called() == ["Prepare"]

    await node.manager.unprepare(pod("p"))
    assert (node.called(), await node.users()) == (["Prepare"], ["q"])
    for _ in range(2):
        await node.manager.unprepare(pod("q"))
    assert (node.called(), await node.users()) == (["Prepare", "Unprepare"], [])


async def test_the_plugin_answers_again_as_before(node):
    """A kubelet that does not know whether a call came through makes it again."""
    claim = await node.claim()
    uid = claim["metadata"]["uid"]
    first = await node.plugin.prepare(uid)
    await node.client.delete(CLAIMS, "c", "ns")

    assert await node.plugin.prepare(uid) == first
    await node.plugin.unprepare(uid, first)
    await node.plugin.unprepare(uid, first)


@pytest.mark.parametrize(
    ("made", "of_pod", "error"),
    [
        (
            None,
            pod(),
            'failed to fetch ResourceClaim c referenced by pod p: resourceclaim.cdi.k8s.io "c" not',
        ),
        ({"reserved": ("q",)}, pod(), r"pod p\(p\) is not allowed to use resource claim c\("),
        ({"name": "p-gpu"}, pod(template=True), r"ResourceClaim ns/p-gpu was not created for pod ns/p \(pod"),
    ],
)
async def test_a_pod_without_its_claim_or_reservation_is_not_let_run(node, made, of_pod, error):
    """No plugin is called for it."""
    if made is not None:
        await node.claim(**made)
    with pytest.raises(DeviceError, match=error):
        await node.manager.prepare(of_pod)

    assert node.called() == []


async def test_a_claim_that_the_plugin_does_not_know_is_asked_for_ever_later(node):
    """Each time the claim is looked at first; between two calls the same error is reported."""
    await node.claim(phase="Pending")
    error = "code = NotFound desc = resource .* does not exist"
    calls = []
    for second in range(8):
        node.clock.seconds = float(second)
        with pytest.raises(DeviceError, match=error):
            await node.manager.prepare(pod())
        calls.append(len(node.called()))
    assert calls == [1, 2, 3, 3, 4, 4, 4, 4]  # after half a second, 1, 2 and 4 seconds

    claim = await node.client.get(CLAIMS, "c", "ns")
    allocated = {**claim, "status": {**claim["status"], "phase": "Allocated"}}
    await node.client.update(CLAIMS, allocated, "status")
    node.clock.seconds = 60.0
    await node.manager.prepare(pod())
    assert ids_of(node, pod())


async def test_a_plugin_that_is_away_or_fails_is_reported_and_called_again(node):
    """The pod waits, and nothing is lost: not even a call whose outcome nobody knows."""
    await node.claim()
    node.services.switches = Switches(refuse_prepare="broken")
    with pytest.raises(DeviceError, match=r"NodePrepareResource failed, claim UID: .* desc = broken"):
        await node.manager.prepare(pod())
    node.plugins.deregister(node.plugin)
    with pytest.raises(DeviceError, match=r"plugin name gpu\.acme\.com not found in the list of registered"):
        await node.manager.prepare(pod())
    with pytest.raises(DeviceError, match=r"plugin name gpu\.acme\.com not found in the list of registered"):
        await node.manager.unprepare(pod())  # the call may have come through
    assert await node.users() == ["p"]

    node.plugins.register(node.plugin)
    await node.manager.unprepare(pod())
    assert (node.called()[-1], await node.users()) == ("Unprepare", [])


async def test_a_reservation_stays_until_the_claim_is_unprepared_and_the_server_has_taken_it(node):
    """A plugin or server that fails keeps the pod; what is done is not done again."""
    await node.claim()
    await node.manager.prepare(pod())
    node.services.switches = Switches(refuse_unprepare="busy")
    with pytest.raises(DeviceError, match=r"NodeUnprepareResource failed, .* desc = busy"):
        await node.manager.unprepare(pod())
    assert await node.users() == ["p"]

    node.services.switches = Switches()
    node.server.outage = lambda request: (
        StatusError(500, "InternalError", "out of order") if request.method == "PUT" else None
    )
    with pytest.raises(DeviceError, match="unreserve claim c: out of order"):
        await node.manager.unprepare(pod())
    node.server.outage = lambda request: None
    await node.manager.unprepare(pod())
    assert (node.called(), await node.users()) == (["Prepare", "Unprepare", "Unprepare"], [])


async def test_pods_that_end_at_once_do_not_keep_each_other(node):
    """Each takes itself from the users, though the others change the claim meanwhile; one call unprepares."""
    names = ["p", "q", "r", "s"]
    await node.claim(reserved=names)
    for name in names:
        await node.manager.prepare(pod(name))
    conflicts = [errors.conflict(CLAIMS.group_resource, "c", "it has been modified")] * 3
    node.server.outage = lambda request: conflicts.pop() if request.method == "PUT" and conflicts else None
    await asyncio.gather(*(node.manager.unprepare(pod(name)) for name in names))

    assert (node.called(), await node.users()) == (["Prepare", "Unprepare"], [])


async def test_a_pod_that_comes_while_another_goes_keeps_the_claim(node):
    """The claim is unprepared and prepared again, or never unprepared; in the end the new pod has it."""
    await node.claim(reserved=("p", "q"))
    await node.manager.prepare(pod("p"))
    await asyncio.gather(node.manager.unprepare(pod("p")), node.manager.prepare(pod("q")))

    assert node.called()[-1] == "Prepare"
    assert ids_of(node, pod("q"))
    assert await node.users() == ["q"]


async def test_a_kubelet_that_is_started_again_gives_back_what_the_one_before_prepared(node):
    """A kubelet gives back what the one before prepared, also for a pod that is gone by then."""
    await node.claim()
    await node.manager.prepare(pod())
    node.restart()
    await node.manager.reconcile_once({"p"})
    assert await node.users() == ["p"]
    assert ids_of(node, pod())

    await node.manager.reconcile_once(set())
    assert (node.called(), await node.users()) == (["Prepare", "Unprepare"], [])


@pytest.mark.parametrize(("on", "enabled"), [(True, True), (False, False)])
async def test_the_gate_decides(on, enabled):
    """Without it the kubelet has no part in claims; with it, it says why a pod does not start."""
    features = KubeletFeatures.of(FeatureGates(DRAFT, {"DynamicResourceAllocation": on}))

    assert features.dynamic_resources is enabled
    assert features.reports_failed_preparation

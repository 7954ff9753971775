"""Kubelets of 1.26 to 1.30 prepare claims by handles, with the example driver behind real sockets."""

import contextlib
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import pytest
from fake_server import FakeServer
from prometheus_client import CollectorRegistry

from kubeskew.apimachinery.client.refs import dra_refs
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.device_managers import DeviceError
from kubeskew.kubelet.dra.checkpoint import CheckpointFile
from kubeskew.kubelet.dra.claims import ClaimCache
from kubeskew.kubelet.dra.classic.features import ClassicFeatures
from kubeskew.kubelet.dra.classic.manager import ClassicDRAManager, ClassicSocketPlugin
from kubeskew.kubelet.dra.generations import generation_of
from kubeskew.kubelet.dra.plugin import PluginRegistry
from kubeskew.kubelet.drivers.claims import CallLog, PreparedClaims
from kubeskew.kubelet.drivers.classic.services import ClassicServices, services_of
from kubeskew.kubelet.drivers.switches import Switches
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.protocols import grpc_calls

pytestmark = pytest.mark.asyncio

DRIVER = "gpu.example.com"
MINORS = [26, 27, 28, 29, 30]
SINGLE = "NodePrepareResource failed, claim UID: THEIRS, claim name: c, resource handle: x, err: "


class Node:
    """A node's DRA manager, a driver, and a server in memory."""

    def __init__(self, minor, directory, library=None, apis=()):
        self.minor, self.directory = minor, directory
        version, clock = Version(minor), SystemClock()
        self.refs = dra_refs(version)
        self.server = FakeServer(clock, SeededEntropy(1))
        self.client = self.server.client()
        self.cache = ClaimCache(CheckpointFile(directory, generation_of(FeatureGates(version)).codec))
        self.cache.load()
        self.plugins = PluginRegistry("plugin name {driver} not found in the list of registered DRA plugins")
        self.features = ClassicFeatures.of(FeatureGates(version))
        self.manager = self.started(self.cache)
        self.calls = CallLog(directory, clock)
        claims = PreparedClaims(DRIVER, directory / "prepared.json", directory)
        self.services = ClassicServices(DRIVER, claims, self.calls)
        self.grpc = grpc_calls.new_server()
        self.services.serve(self.grpc, services_of(Version(library or minor), apis))
        self.grpc.listen(directory / "d.sock")
        service = generation_of(FeatureGates(version)).services.choose(["1.0.0"])
        metrics = KubeletMetrics(CollectorRegistry())
        self.plugin = ClassicSocketPlugin(DRIVER, str(directory / "d.sock"), service, clock, metrics)

    def started(self, cache, *, notes_late=True):
        """A manager, as a kubelet that starts makes one."""
        features = replace(self.features, notes_late=notes_late)
        return ClassicDRAManager(self.client, self.refs.claims, self.plugins, cache, features)

    async def claim(
        self, name="c", *, reserved=("p",), driver=DRIVER, data=None, structured=None, **metadata
    ):
        data = orjson.dumps({"EnvVars": {"user_a": "1"}, "NodeName": "n"}).decode() if data is None else data
        driver, handle = DRIVER, {"driverName": DRIVER, "data": data}
        if structured is not None:
            handle = {"driverName": driver, "structuredData": structured}
        allocation = {"resourceHandle": data} if self.minor == 26 else {"resourceHandles": [handle]}
        users = [{"resource": "pods", "name": name, "uid": name} for name in reserved]
        body = {
            "metadata": {"name": name, "namespace": "ns", **metadata},
            "spec": {"resourceClassName": "gpu"},
            "status": {"driverName": driver, "allocation": allocation, "reservedFor": users},
        }
        return await self.client.create(self.refs.claims, body)

    def called(self):
        lines = (self.directory / "calls.jsonl").read_text().splitlines()
        noted = [orjson.loads(line) for line in lines]
        return [(call["call"], [claim["name"] for claim in call["claims"]]) for call in noted]


def pod(name="p", claims=("c",), *, used=True, template=False):
    source = "resourceClaimTemplateName" if template else "resourceClaimName"
    entries = [{"name": claim, "source": {source: claim}} for claim in claims]
    uses = [{"name": claim} for claim in claims] if used else []
    container = {"name": "main", "resources": {"claims": uses}}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"resourceClaims": entries, "containers": [container]},
    }


@pytest.fixture
async def make():
    """Makes nodes whose driver is registered."""
    async with contextlib.AsyncExitStack() as stack:

        async def node(minor, *, registered=True, **more):
            directory = Path(stack.enter_context(TemporaryDirectory()))
            made = Node(minor, directory, **more)
            await made.grpc.start()
            stack.push_async_callback(made.grpc.stop, 0)
            stack.push_async_callback(made.plugin.close)
            if registered:
                made.plugins.register(made.plugin)
            return made

        yield node


def ids_of(node, of_pod):
    return list(node.manager.for_container(of_pod, of_pod["spec"]["containers"][0]).cdi_ids)


@pytest.mark.parametrize("minor", MINORS)
async def test_a_claim_is_prepared_and_given_back(make, minor):
    """The driver's CDI ids reach the container; with the pod's end the claim goes back."""
    node = await make(minor)
    claim = await node.claim()
    await node.manager.prepare(pod())
    uid = claim["metadata"]["uid"]

    assert ids_of(node, pod()) == [f"{DRIVER}/claim={uid}"]
    spec = orjson.loads((node.directory / f"{DRIVER}-{uid}.json").read_bytes())
    assert "user_a=1" in spec["devices"][0]["containerEdits"]["env"]

    await node.manager.unprepare(pod())
    plural = "s" if minor >= 28 else ""
    assert node.called() == [
        (f"NodePrepareResource{plural}", ["c"]),
        (f"NodeUnprepareResource{plural}", ["c"]),
    ]
    assert node.cache.infos() == []


@pytest.mark.parametrize("minor", MINORS)
async def test_a_pod_that_has_no_reservation_is_refused(make, minor):
    """Nothing is asked of the driver."""
    node = await make(minor)
    claim = await node.claim(reserved=("other",))
    with pytest.raises(DeviceError) as error:
        await node.manager.prepare(pod())

    uid = claim["metadata"]["uid"]
    assert str(error.value) == f"pod p(p) is not allowed to use resource claim c({uid})"
    assert not (node.directory / "calls.jsonl").exists()


@pytest.mark.parametrize("minor", MINORS)
async def test_a_claim_that_is_not_there(make, minor):
    """Called with the pod's name."""
    node = await make(minor)
    with pytest.raises(DeviceError, match="failed to fetch ResourceClaim c referenced by pod p: "):
        await node.manager.prepare(pod())


@pytest.mark.parametrize(("minor", "separator"), [(26, ", err="), (27, ", err="), (28, ": "), (30, ": ")])
async def test_a_driver_that_is_not_registered(make, minor, separator):
    """A pod whose driver is not registered fails for now: it is tried again, for the driver may come yet."""
    node = await make(minor, registered=False)
    await node.claim()
    with pytest.raises(DeviceError) as error:
        await node.manager.prepare(pod())

    assert str(error.value) == (
        f"failed to get DRA Plugin client for plugin name {DRIVER}{separator}"
        f"plugin name {DRIVER} not found in the list of registered DRA plugins"
    )
    node.plugins.register(node.plugin)
    await node.manager.prepare(pod())


@pytest.mark.parametrize(
    ("minor", "text"),
    [
        (27, f"{SINGLE}rpc error: code = Unknown desc = no"),
        (30, "NodePrepareResources failed for claim ns/c: no"),
    ],
)
async def test_what_the_driver_refuses(make, minor, text):
    """By claim since 1.28."""
    node = await make(minor)
    claim = await node.claim(data="x")
    node.services.switches = Switches(refuse_prepare="no")
    with pytest.raises(DeviceError) as error:
        await node.manager.prepare(pod())

    assert str(error.value) == text.replace("THEIRS", claim["metadata"]["uid"])


async def test_upstreams_error_without_an_error(make):
    """A failed unprepare is reported with a nil error, as upstream formats it, and the claim stays."""
    node = await make(30)
    await node.claim()
    await node.manager.prepare(pod())
    node.services.switches = Switches(refuse_unprepare="no")
    with pytest.raises(DeviceError) as error:
        await node.manager.unprepare(pod())

    assert str(error.value) == "NodeUnprepareResources failed for claim ns/c: %!s(<nil>)"
    assert [info.name for info in node.cache.infos()] == ["c"]


@pytest.mark.parametrize("minor", MINORS)
async def test_a_claim_that_no_container_uses(make, minor):
    """A claim that no container uses is not prepared; since 1.28 its reservation is checked all the same."""
    node = await make(minor)
    await node.claim(reserved=())
    if minor < 28:
        await node.manager.prepare(pod(used=False))
    else:
        with pytest.raises(DeviceError, match="is not allowed to use"):
            await node.manager.prepare(pod(used=False))
    assert not (node.directory / "calls.jsonl").exists()


@pytest.mark.parametrize("minor", MINORS)
async def test_two_pods_share_a_claim(make, minor):
    """Prepared once; given back with the last of them."""
    node = await make(minor)
    await node.claim(reserved=("p", "q"))
    await node.manager.prepare(pod("p"))
    await node.manager.prepare(pod("q"))
    await node.manager.unprepare(pod("p"))

    assert len(node.called()) == 1
    await node.manager.unprepare(pod("q"))
    assert len(node.called()) == 2


@pytest.mark.parametrize(("minor", "fails"), [(26, False), (27, True), (28, False)])
async def test_giving_back_a_claim_that_is_gone(make, minor, fails):
    """1.27 asks the API for it once more, and cannot."""
    node = await make(minor)
    await node.claim()
    await node.manager.prepare(pod())
    await node.client.delete(node.refs.claims, "c", "ns")
    if fails:
        with pytest.raises(DeviceError, match="failed to fetch ResourceClaim c"):
            await node.manager.unprepare(pod())
    else:
        await node.manager.unprepare(pod())
        assert node.cache.infos() == []


@pytest.mark.parametrize("minor", [28, 30])
async def test_an_older_driver_is_called_claim_by_claim(make, minor):
    """The batch falls back to v1alpha2, and its failures become the claims'."""
    node = await make(minor, library=28, apis=("v1alpha2",))
    await node.claim("c")
    await node.claim("d")
    both = pod(claims=("c", "d"))
    await node.manager.prepare(both)

    assert node.called() == [("NodePrepareResource", ["c"]), ("NodePrepareResource", ["d"])]
    assert len(ids_of(node, both)) == 2

    await node.claim("e")
    node.services.switches = Switches(refuse_prepare="no")
    with pytest.raises(DeviceError, match=r"NodePrepareResources failed for claim ns/e: rpc error: .*no"):
        await node.manager.prepare(pod(claims=("e",)))


async def test_a_driver_without_the_service_of_1_26(make):
    """A newer library does not know it: the call fails."""
    node = await make(26, library=27)
    await node.claim()
    with pytest.raises(DeviceError, match="code = Unimplemented"):
        await node.manager.prepare(pod())


@pytest.mark.parametrize("minor", [27, 28, 30])
async def test_a_restart_prepares_again(make, minor):
    """The checkpoint knows the claim; whether the driver still has it, only the driver knows."""
    node = await make(minor)
    await node.claim()
    await node.manager.prepare(pod())
    cache = ClaimCache(CheckpointFile(node.directory, generation_of(FeatureGates(Version(minor))).codec))
    cache.load()
    restarted = node.started(cache)
    await restarted.prepare(pod())
    await restarted.unprepare(pod())

    assert len(node.called()) == 3


@pytest.mark.parametrize("notes_late", [True, False])
@pytest.mark.parametrize("minor", [27, 28, 30])
async def test_a_kubelet_that_dies_during_the_call_of_a_driver(make, minor, notes_late, monkeypatch):
    """The checkpoint knows the claim before the call, but with 116411: then nobody gives it back."""
    node = await make(minor)
    await node.claim()
    prepare = node.plugin.prepare

    async def prepare_and_die(uses):
        await prepare(uses)
        raise SystemExit

    monkeypatch.setattr(node.plugin, "prepare", prepare_and_die)
    with pytest.raises(SystemExit):
        await node.started(node.cache, notes_late=notes_late).prepare(pod())
    cache = ClaimCache(CheckpointFile(node.directory, generation_of(FeatureGates(Version(minor))).codec))
    cache.load()
    await node.started(cache, notes_late=notes_late).unprepare(pod())

    assert len(node.called()) == (1 if notes_late else 2)


async def test_what_1_30s_scheduler_allocated_reaches_the_driver(make):
    """Vendors' parameters and the names of instances."""
    node = await make(30)
    structured = {
        "nodeName": "n",
        "vendorClassParameters": {"A": "1"},
        "vendorClaimParameters": {"B": 2},
        "results": [{"vendorRequestParameters": {"C": "3"}, "namedResources": {"name": "gpu-7"}}],
    }
    claim = await node.claim(structured=structured)
    await node.manager.prepare(pod())
    file = node.directory / f"{DRIVER}-{claim['metadata']['uid']}.json"
    env = orjson.loads(file.read_bytes())["devices"][0]["containerEdits"]["env"]

    assert {"admin_a=1", "user_b=2", "user_c=3", "gpu_example_com=gpu-7"} <= set(env)


@pytest.mark.parametrize(("minor", "name"), [(26, "p-t"), (27, "p-t")])
async def test_generated_claims_have_fixed_names(make, minor, name):
    """Until 1.27 the pod's status says nothing of them."""
    node = await make(minor)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": True}
    await node.claim(name, reserved=("p",), ownerReferences=[owner])
    await node.manager.prepare(pod(claims=("t",), template=True))

    assert node.called() == [("NodePrepareResource", [name])]

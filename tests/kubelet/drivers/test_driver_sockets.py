"""A driver on its sockets, called as a kubelet calls it; what goes wrong when it is asked to."""

import asyncio
from types import SimpleNamespace

import orjson
import pytest
from fake_server import FakeServer
from until import until

from kubeskew.apimachinery.client.refs import NODES, Ref
from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apimachinery.errors import unknown_path
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.process.health_checks import Health
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.containers.journal import Journal
from kubeskew.kubelet.drivers.host import DriverHost
from kubeskew.kubelet.drivers.settings import DriverFile, parse_node
from kubeskew.kubelet.protocols import dra, registration
from kubeskew.kubelet.protocols.grpc_calls import RpcError, channel_to

DRIVER = "gpu.example.com"
CLAIMS = Ref("resource.k8s.io", "v1", "resourceclaims", True, "ResourceClaim")
SLICES = Ref("resource.k8s.io", "v1", "resourceslices", False, "ResourceSlice")


class Server(FakeServer):
    """The fake server, with what drivers discover."""

    minor, served = "36", ["v1", "v1beta1"]

    async def __call__(self, request):
        path = request.target.partition("?")[0]
        answers = {
            "/version": {"major": "1", "minor": self.minor},
            "/apis/resource.k8s.io": {"versions": [{"version": each} for each in self.served]},
        }
        for version in self.served:
            resources = [{"name": "resourceclaims"}, {"name": "resourceslices"}]
            answers[f"/apis/resource.k8s.io/{version}"] = {"resources": resources}
        answer = await super().__call__(request) if path not in answers else None
        return answer or _Answer(orjson.dumps(answers[path]))


class _Answer:
    status = 200

    def __init__(self, content):
        self.headers = {"Content-Type": "application/json"}
        self._content = content

    async def body(self):
        return self._content

    async def close(self):
        return


class Driver:
    """A driver's process on node-1, and the kubelet's side of it."""

    def __init__(self, directory, minor=36):
        clock = SystemClock()
        self.server = Server(clock, SeededEntropy(1))
        self.client = self.server.client()
        self.directory = directory
        self.entry = {
            "name": "node-1",
            "registrarDir": str(directory / "reg"),
            "pluginsDir": str(directory / "plugins"),
            "cdiDir": str(directory / "cdi"),
            "devices": 3,
        }
        self.switches = {}
        self.revision = 0
        self._minor = minor
        self._channels = []
        self._clock = clock
        self.host = None

    async def start(self):
        options = SimpleNamespace(emulated_version=Version(self._minor))
        ctx = SimpleNamespace(
            environment=SimpleNamespace(clock=self._clock, gates=FeatureGates(Version(self._minor))),
            client=self.client,
            health=Health(None),
            stop=asyncio.Event(),
            options=options,
            reloads=[],
        )
        self.host = DriverHost(ctx, DRIVER, self.read, sync_delay=0)
        self._task = asyncio.create_task(self.host.run())
        self._ctx = ctx
        await until(lambda: not ctx.health.failing())

    async def stop(self):
        for channel in self._channels:
            await channel.close()
        self._channels.clear()
        self._ctx.stop.set()
        await self._task

    def read(self):
        entry = {**self.entry, "switches": self.switches}
        return DriverFile((parse_node(entry, "test"),), self.revision)

    async def switch(self, **switches):
        self.switches, self.revision = switches, self.revision + 1
        await self.host.apply(self.read())
        await until(lambda: not self._ctx.health.failing())

    def channel(self, path):
        self._channels.append(channel_to(self.directory / path))
        return self._channels[-1]

    async def info(self):
        channel = self.channel("reg/gpu.example.com-reg.sock")
        return await registration.GET_INFO.call(channel, registration.InfoRequest(), timeout=5)

    async def call(self, verb, uid, service=dra.V1, name="claim"):
        request = getattr(service.messages, f"Node{verb}ResourcesRequest")()
        request.claims.add(namespace="default", name=name, uid=uid)
        method = service.prepare if verb == "Prepare" else service.unprepare
        return await method.call(self.channel(f"plugins/{DRIVER}/dra.sock"), request, timeout=5)

    async def claim(self, name="claim", config=(), **allocation):
        results = [
            {"driver": DRIVER, "pool": "node-1", "device": "gpu-1", "request": "main"},
            {"driver": DRIVER, "pool": "node-1", "device": "gpu-2", "request": "other/first"},
            {"driver": "else.example.com", "pool": "x", "device": "y", "request": "main"},
        ]
        devices = {"results": results, "config": [*config]}
        status = {"allocation": {"devices": devices, **allocation}}
        made = await self.client.create(
            CLAIMS, {"metadata": {"name": name, "namespace": "default"}, "status": status}
        )
        return made["metadata"]["uid"]

    async def devices(self):
        """The names of all devices in slices."""
        found = (await self.client.list(SLICES))["items"]
        return sorted(device["name"] for slice_ in found for device in slice_["spec"].get("devices", ()))

    async def slices(self):
        found = (await self.client.list(SLICES))["items"]
        return sorted(
            (
                slice_["spec"]["pool"]["generation"],
                slice_["spec"]["pool"]["resourceSliceCount"],
                len(slice_["spec"]["devices"]),
            )
            for slice_ in found
        )


@pytest.fixture
async def driver(tmp_path_factory):
    """A running driver; its directory is short enough for sockets."""
    made = Driver(tmp_path_factory.mktemp("d"))
    await made.client.create(NODES, {"metadata": {"name": "node-1"}})
    await made.start()
    yield made
    await made.stop()
    await made.client.close()


def config(key, value, source="FromClaim", requests=()):
    opaque = {"driver": DRIVER, "parameters": {key: value}}
    return {"source": source, "requests": [*requests], "opaque": opaque}


def variables(driver, uid):
    """CDI device → environment."""
    spec = orjson.loads((driver.directory / "cdi" / f"{DRIVER}-{uid}.json").read_bytes())
    return {
        f"{spec['kind']}={device['name']}": dict(v.split("=", 1) for v in device["containerEdits"]["env"])
        for device in spec["devices"]
    }


async def test_it_shows_itself_to_the_kubelet(driver):
    """The registrar's socket shows type, name, endpoint and services; its status comes back."""
    info = await driver.info()
    channel = driver.channel("reg/gpu.example.com-reg.sock")
    refusal = registration.RegistrationStatus(plugin_registered=False, error="no")
    await registration.NOTIFY.call(channel, refusal, timeout=5)
    refused = driver.host.state()["nodes"]["node-1"]
    await registration.NOTIFY.call(
        channel, registration.RegistrationStatus(plugin_registered=True), timeout=5
    )

    assert (info.type, info.name) == ("DRAPlugin", DRIVER)
    assert info.endpoint == str(driver.directory / "plugins" / DRIVER / "dra.sock")
    assert [*info.supported_versions] == ["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1alpha1.DRAResourceHealth"]
    assert (refused["registered"], refused["refused"]) == (False, "no")
    assert driver.host.state()["nodes"]["node-1"]["registered"]


@pytest.mark.parametrize("service", [dra.V1, dra.V1BETA1, dra.V1ALPHA4], ids=lambda each: each.name)
async def test_claims_are_prepared_and_unprepared(driver, service):
    """Results of the driver become devices with CDI files, again the same, and nothing is left of them."""
    entries = (
        config("a", "1", "FromClass"),
        config("b", "2", requests=["main"]),
        config("c", "3", requests=["other/second"]),
    )
    uid = await driver.claim(config=entries)
    first = await driver.call("Prepare", uid, service)
    main, other = first.claims[uid].devices
    found = variables(driver, uid)
    again = await driver.call("Prepare", uid, service)

    assert (main.pool_name, main.device_name, [*main.request_names]) == ("node-1", "gpu-1", ["main"])
    assert [*other.cdi_device_ids] == [f"{DRIVER}/claim={uid}-other"]
    names = {"claim_claim_main": "true", "gpu_example_com_main": "gpu-1"}
    others = {"claim_claim_other": "true", "gpu_example_com_other": "gpu-2"}
    assert found == {
        main.cdi_device_ids[0]: {"admin_a": "1", "user_b": "2", "main": "true", **names},
        other.cdi_device_ids[0]: {"admin_a": "1", "other": "true", **others},
    }
    assert again == first
    for _ in range(2):
        assert (await driver.call("Unprepare", uid, service)).claims[uid].error == ""
    assert [*(driver.directory / "cdi").iterdir()] == []
    assert driver.host.state()["nodes"]["node-1"]["prepared"] == []


async def test_a_restarted_driver_remembers(driver):
    """A restarted driver knows the claims that it had prepared, and can unprepare them."""
    uid = await driver.claim()
    first = await driver.call("Prepare", uid)
    await driver.stop()
    assert not (driver.directory / "plugins" / DRIVER / "dra.sock").exists()
    assert not (driver.directory / "reg" / "gpu.example.com-reg.sock").exists()
    assert len(await driver.slices()) == 1
    await driver.start()
    assert [each["uid"] for each in driver.host.state()["nodes"]["node-1"]["prepared"]] == [uid]
    assert await driver.call("Prepare", uid) == first
    await driver.call("Unprepare", uid)
    assert [*(driver.directory / "cdi").iterdir()] == []


@pytest.mark.parametrize(
    ("uid", "name", "why"),
    [
        ("other", "claim", "claim default/claim got replaced"),
        ("any", "pending", "claim default/pending not allocated"),
        ("any", "gone", 'retrieve claim default/gone: resourceclaims.resource.k8s.io "gone" not found'),
    ],
)
async def test_claims_that_are_not_to_be_prepared_fail_the_call(driver, uid, name, why):
    """A claim that must not be prepared fails the call with the error of upstream's plugin library."""
    await driver.claim()
    await driver.client.create(CLAIMS, {"metadata": {"name": "pending", "namespace": "default"}})
    with pytest.raises(RpcError) as failure:
        await driver.call("Prepare", uid, name=name)

    assert str(failure.value) == f"rpc error: code = Unknown desc = get resource claims: {why}"


async def test_configuration_that_is_no_map_of_texts_fails_the_claim(driver):
    """In the words of Go's JSON decoder."""
    uid = await driver.claim(config=(config("a", 1),))
    answer = await driver.call("Prepare", uid)

    why = "json: cannot unmarshal number into Go value of type string"
    assert answer.claims[uid].error == f"parameters in config #0: decoding user parameters: {why}"


async def test_switches_of_calls(driver):
    """Refusing, failing, answering garbage or not at all, until it is taken back."""
    uid = await driver.claim()
    await driver.switch(refusePrepare=True)
    assert (await driver.call("Prepare", uid)).claims[uid].error == "simulated PrepareResources failure"
    await driver.switch(failCalls="broken")
    with pytest.raises(RpcError, match="code = Unknown desc = prepare resource claims: broken"):
        await driver.call("Prepare", uid)
    await driver.switch(garbage="claims")
    assert uid not in (await driver.call("Prepare", uid)).claims
    await driver.switch(garbage="bytes")
    with pytest.raises(RpcError, match="code = Internal"):
        await driver.call("Prepare", uid)
    await driver.switch(hang=True)
    hanging = asyncio.create_task(driver.call("Prepare", uid))
    done, _ = await asyncio.wait([hanging], timeout=0.05)
    assert not done
    await driver.switch()
    assert len((await hanging).claims[uid].devices) == 2
    await driver.switch(refuseUnprepare="no")
    assert (await driver.call("Unprepare", uid)).claims[uid].error == "no"


async def test_health_is_streamed(driver):
    """Every device at once, and again when one falls ill."""
    method, messages = dra.HEALTH_V1ALPHA1.watch, dra.HEALTH_V1ALPHA1.messages
    channel = driver.channel(f"plugins/{DRIVER}/dra.sock")
    stream = method.call(channel, messages.NodeWatchResourcesRequest())
    first = await anext(stream)
    await driver.switch(health={"gpu-1": {"status": "Unhealthy", "message": "too hot"}, "gpu-2": "Unknown"})
    second = await anext(stream)
    await stream.aclose()

    names = [(device.device.pool_name, device.device.device_name) for device in first.devices]
    assert names == [("node-1", f"gpu-{number}") for number in range(3)]
    assert [device.health for device in first.devices] == [1, 1, 1]
    assert [device.health for device in second.devices] == [1, 2, 0]
    assert second.devices[1].message == "too hot"


async def test_switches_of_slices(driver):
    """Fewer devices, a promise of more slices, a new generation next to the old, taints; and back."""
    assert await driver.slices() == [(1, 1, 3)]
    await driver.switch(devices=1)
    assert await driver.slices() == [(2, 1, 1)]
    await driver.switch()
    assert await driver.slices() == [(3, 1, 3)]
    await driver.switch(incompletePool=True)
    assert await driver.slices() == [(3, 2, 3)]
    await driver.switch(staleGeneration=True)
    assert await driver.slices() == [(3, 2, 3), (4, 1, 3)]
    await driver.switch(generation=9)
    assert await driver.slices() == [(9, 1, 3)]
    taint = {"key": "example.com/broken", "effect": "NoExecute"}
    await driver.switch(taints={"gpu-2": taint})
    (found,) = (await driver.client.list(SLICES))["items"]
    assert [device.get("taints") for device in found["spec"]["devices"]] == [None, None, [taint]]


async def test_partitions_stay_while_no_others_are_made(driver):
    """A driver that stops making partitions offers those that there are then: after their pod is gone, after
    other switches, and after its own restart; when it makes partitions again it offers all of them."""
    half = {"driver": DRIVER, "pool": "node-1", "device": "gpu-0-mig-3g-20gb-0-3", "request": "main"}
    driver.entry |= {"profile": "a100-mig", "devices": 2}
    await driver.switch()
    claim = {"metadata": {"name": "half", "namespace": "default"}}
    made = await driver.client.create(
        CLAIMS, {**claim, "status": {"allocation": {"devices": {"results": [half]}}}}
    )
    uid = made["metadata"]["uid"]
    await driver.call("Prepare", uid, name="half")
    await driver.switch(prePartitioned=True)
    fixed = await driver.devices()
    assert fixed == ["gpu-0-mig-3g-20gb-0-3", "gpu-1"]

    await driver.call("Unprepare", uid, name="half")
    await driver.switch(prePartitioned=True, delay="1s")
    assert await driver.devices() == fixed
    await driver.stop()
    await driver.start()
    assert await driver.devices() == fixed
    await driver.switch()
    assert len(await driver.devices()) > len(fixed)
    await driver.switch(prePartitioned=True)
    assert await driver.devices() == ["gpu-0", "gpu-1"]


async def test_a_driver_that_vanished_leaves_its_slices(driver):
    """No sockets, and nothing is published until it is back."""
    await driver.switch(vanish=True)
    assert not (driver.directory / "reg" / "gpu.example.com-reg.sock").exists()
    (found,) = (await driver.client.list(SLICES))["items"]
    await driver.client.delete(SLICES, found["metadata"]["name"])
    await asyncio.sleep(0.1)
    assert await driver.slices() == []
    await driver.switch()
    assert await driver.slices() == [(1, 1, 3)]
    assert (await driver.info()).name == DRIVER


async def test_instances_have_sockets_of_their_own(driver):
    """In a rolling update the new instance's sockets come before the old one's go."""
    there = []

    async def instances(*names):
        await driver.switch(instances=list(names))
        there.append(sorted(path.name for path in (driver.directory / "reg").iterdir()))

    await instances("a")
    await instances("a", "b")
    await instances("b")
    a, b = f"{DRIVER}-a-reg.sock", f"{DRIVER}-b-reg.sock"
    assert there == [[a], [a, b], [b]]


async def test_only_some_versions_of_the_api_are_served(driver):
    """A driver registers only the versions of the API that its file names, and answers no other."""
    await driver.stop()
    driver.entry["pluginAPIs"] = ["v1beta1"]
    await driver.start()
    info = await driver.info()
    assert list(info.supported_versions) == ["v1beta1.DRAPlugin", "v1alpha1.DRAResourceHealth"]
    await driver.call("Unprepare", "u", dra.V1BETA1)
    with pytest.raises(RpcError):
        await driver.call("Unprepare", "u", dra.V1)


async def test_another_version_is_spoken_when_the_server_changes(driver):
    """The newest that is served; a server without the resource does not keep the driver from being ready."""
    assert driver.host.state()["api"] == "resource.k8s.io/v1"
    driver.server.served = ["v1beta1"]
    driver.server.outage = lambda request: unknown_path() if "/v1/" in request.target else None
    await driver.server.disconnect()
    await until(lambda: driver.host.state()["api"] == "resource.k8s.io/v1beta1")


async def test_every_call_of_a_kubelet_is_recorded(driver):
    """Calls are noted in order with what was answered per claim, over a restart of the driver."""
    uid = await driver.claim()
    await driver.call("Prepare", uid)
    await driver.call("Prepare", uid)
    await driver.switch(failCalls="broken")
    with pytest.raises(RpcError):
        await driver.call("Unprepare", uid)
    await driver.switch(refuseUnprepare="no")
    await driver.call("Unprepare", uid)
    await driver.stop()
    driver.switches = {}
    await driver.start()
    await driver.call("Unprepare", uid)

    log = Journal(driver.directory / "plugins" / DRIVER / "calls.jsonl").entries()
    claims = [claim for entry in log for claim in entry["claims"]]
    failed = "rpc error: code = Unknown desc = unprepare resource claims: broken"
    assert [(entry["call"], entry["error"]) for entry in log] == [
        ("NodePrepareResources", ""),
        ("NodePrepareResources", ""),
        ("NodeUnprepareResources", failed),
        ("NodeUnprepareResources", ""),
        ("NodeUnprepareResources", ""),
    ]
    assert {(claim["namespace"], claim["name"], claim["uid"]) for claim in claims} == {
        ("default", "claim", uid)
    }
    assert [claim["error"] for claim in claims] == ["", "", "", "no", ""]
    assert [[device["device"] for device in claim["devices"]] for claim in claims] == [
        ["gpu-1", "gpu-2"],
        ["gpu-1", "gpu-2"],
        *([[]] * 3),
    ]
    assert [entry["time"] for entry in log] == sorted(entry["time"] for entry in log)

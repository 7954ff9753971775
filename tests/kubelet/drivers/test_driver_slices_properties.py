"""Publishing among everything that may go wrong: in the end the server has what the driver wants, once."""

import asyncio

import aiohttp
import looptime
from fake_server import FakeServer
from hypothesis import example, given, settings
from hypothesis import strategies as st
from loop_clock import LoopClock

from kubeskew.apimachinery.client.refs import NODES, Ref
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.pools import Pool, Slice
from kubeskew.kubelet.drivers.resourceslice_controller import SlicePublisher

SLICES = Ref("resource.k8s.io", "v1", "resourceslices", False, "ResourceSlice")
DRIVER = "gpu.example.com"
QUIET_SECONDS = 200

_sets = st.lists(st.sampled_from("abcd"), max_size=3, unique=True).map(tuple)
_wanted = st.lists(_sets, min_size=1, max_size=3).map(tuple)
_interference = st.one_of(
    st.tuples(st.just("want"), _wanted),
    st.tuples(st.sampled_from(["delete", "change", "copy"]), st.integers(0, 3)),
    st.tuples(st.sampled_from(["wipe", "cut", "compact"]), st.none()),
    st.tuples(st.sampled_from(["watches", "lists", "writes", "answers"]), st.booleans()),
    st.tuples(st.just("latency"), st.sampled_from([0.0, 0.01, 1.0, 7.0])),
)
_pause = st.sampled_from([0.0, 0.01, 0.05, 0.06, 0.7, 1.0, 30.0, 61.0])
_script = st.lists(st.tuples(_interference, _pause), max_size=12)


class Server(FakeServer):
    """Some kinds of requests fail, or their answers are lost, or both take their time."""

    def __init__(self, clock):
        super().__init__(clock, SeededEntropy(1))
        self.failing, self.latency, self.trusted = set(), 0.0, False

    async def __call__(self, request):
        if self.trusted:
            return await super().__call__(request)
        kind = "writes" if request.method != "GET" else "watches" if "watch=" in request.target else "lists"
        if kind in self.failing:
            raise aiohttp.ClientConnectionError
        latency = self.latency if kind == "writes" else 0.0
        await asyncio.sleep(latency / 2)
        answer = await super().__call__(request)
        await asyncio.sleep(latency / 2)
        if kind == "writes" and "answers" in self.failing:
            raise aiohttp.ClientConnectionError
        return answer


class Others:
    """Acts for others at the server meanwhile: kubelets, people, the network."""

    def __init__(self, server, publisher):
        self._server, self._publisher = server, publisher
        self.wanted = ()

    async def do(self, what, argument):
        server = self._server
        if what == "want":
            self.want(argument)
        elif what in {"watches", "lists", "writes", "answers"}:
            (server.failing.add if argument else server.failing.discard)(what)
        elif what == "latency":
            server.latency = argument
        elif what == "cut":
            await server.disconnect()
        elif what == "compact":
            server.compact()
            await server.disconnect()
        else:
            await self._write(what, argument)

    def want(self, sets):
        self.wanted = [tuple(f"{name}-{number}" for name in names) for number, names in enumerate(sets)]
        made = tuple(Slice(tuple({"name": name} for name in names)) for names in self.wanted)
        self._publisher.update({"node-1": Pool(made, node_name="node-1")})

    async def _write(self, what, number):
        client = _trusted(self._server)
        found = (await client.list(SLICES))["items"]
        if what == "wipe":
            for slice_ in found:
                await client.delete(SLICES, slice_["metadata"]["name"])
        elif found:
            slice_ = found[number % len(found)]
            name = slice_["metadata"]["name"]
            if what == "delete":
                await client.delete(SLICES, name)
            elif what == "change":
                await client.update(
                    SLICES, {**slice_, "spec": {**slice_["spec"], "devices": [{"name": "z"}]}}
                )
            else:
                await client.create(SLICES, {"metadata": {"generateName": name}, "spec": slice_["spec"]})


def _trusted(server):
    """A client of others, whose requests do not fail."""
    calling = FakeServer.__call__

    class Transport:
        async def __call__(self, request):
            return await calling(server, request)

        async def close(self):
            pass

    return APIClient(Transport(), clock=server._clock)


async def play(script, minor, latency):
    clock = LoopClock()
    server = Server(clock)
    await _trusted(server).create(NODES, {"metadata": {"name": "node-1"}})
    gates = FeatureGates(Version(minor))
    publisher = SlicePublisher(server.client(), clock, SLICES, DRIVER, gates, sync_delay=0)
    others = Others(server, publisher)
    others.want((("a",),))
    server.latency = latency
    publisher.start()
    try:
        await asyncio.sleep(max(0, latency - 0.02))  # the first creation is about to be answered
        for (what, argument), pause in script:
            await others.do(what, argument)
            await asyncio.sleep(pause)
        server.failing, server.latency = set(), 0.0
        await server.disconnect()
        await asyncio.sleep(QUIET_SECONDS)
        assert publisher.pending() == []
        found = (await _trusted(server).list(SLICES))["items"]
        devices = [tuple(device["name"] for device in each["spec"].get("devices", ())) for each in found]
        assert sorted(devices) == sorted(others.wanted)
        assert len({slice_["spec"]["pool"]["generation"] for slice_ in found}) == 1
        assert {each["spec"]["pool"]["resourceSliceCount"] for each in found} == {len(others.wanted)}
        writes = len([request for request in server.requests if request.method != "GET"])
        await asyncio.sleep(QUIET_SECONDS)
        assert len([request for request in server.requests if request.method != "GET"]) == writes
    finally:
        await publisher.stop()


@settings(max_examples=40, deadline=None, derandomize=True)
@example([(("wipe", None), 0.0)], 36, 2.0)
@given(_script, st.sampled_from([31, 32, 35, 36]), st.sampled_from([0.0, 0.2, 2.0]))
def test_what_is_wanted_is_stored_in_the_end(script, minor, latency):
    """Whatever others, the network and lost answers do; then there is peace."""
    with asyncio.Runner(loop_factory=_virtual_loop) as runner:
        runner.run(play(script, minor, latency))


def _virtual_loop():
    loop = looptime.patch_event_loop(asyncio.new_event_loop())
    loop.setup_looptime(end=100_000)
    return loop

"""The kubelet and a device plugin talk to each other: registration, preferences, starts, refusals."""

import asyncio
import tempfile
from pathlib import Path

import grpc
import pytest
from prometheus_client import CollectorRegistry
from until import until

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.device_managers import DeviceError
from kubeskew.kubelet.deviceplugins import plugin_server
from kubeskew.kubelet.deviceplugins.manager import DevicePluginManager, ManagerDependencies
from kubeskew.kubelet.deviceplugins.plugin_server import DevicePluginServer
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.plugins.plugin_handler import PluginRefusedError
from kubeskew.kubelet.protocols import device_plugin, grpc_calls
from kubeskew.kubelet.protocols.device_plugin import (
    AllocateResponse,
    DevicePluginOptions,
    ListAndWatchResponse,
    PreferredAllocationResponse,
    PreStartContainerResponse,
    RegisterRequest,
)
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.messages.device_plugin_v1beta1_pb2 import NUMANode, TopologyInfo

GPU = "example.com/gpu"


class Plugin:
    """A plugin that does as it is asked, and remembers what it was asked."""

    def __init__(self, socket):
        self.socket = socket
        self.options = DevicePluginOptions()
        self.devices = ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
        self.numa_nodes = {}
        self.preferred = None
        self.fails = {}  # method → text
        self.answers = True
        self.asked = []
        self.holds = {}  # devices → until when their allocation is not answered
        self.ends = asyncio.Event()

    async def start(self):
        self.server = grpc_calls.new_server()
        device_plugin.GET_OPTIONS.serve(self.server, self._options)
        device_plugin.LIST_AND_WATCH.serve(self.server, self._list_and_watch)
        device_plugin.GET_PREFERRED_ALLOCATION.serve(self.server, self._prefer)
        device_plugin.ALLOCATE.serve(self.server, self._allocate)
        device_plugin.PRE_START_CONTAINER.serve(self.server, self._pre_start)
        self.server.listen(self.socket)
        await self.server.start()

    def _asked(self, method, *what):
        self.asked.append((method, *what))
        if method in self.fails:
            raise RpcError(grpc.StatusCode.INTERNAL, self.fails[method])

    async def _options(self, _):
        self._asked("options")
        return self.options

    async def _list_and_watch(self, _):
        response = ListAndWatchResponse()
        for name in self.devices:
            nodes = [NUMANode(ID=node) for node in self.numa_nodes.get(name, ())]
            topology = TopologyInfo(nodes=nodes) if nodes else None
            response.devices.add(ID=name, health="Healthy", topology=topology)
        yield response
        await self.ends.wait()

    async def _prefer(self, request):
        [one] = request.container_requests
        included = list(one.must_include_deviceIDs)
        self._asked("prefer", list(one.available_deviceIDs), included, one.allocation_size)
        response = PreferredAllocationResponse()
        if self.preferred is not None:
            response.container_responses.add(deviceIDs=self.preferred)
        return response

    async def _allocate(self, request):
        [one] = request.container_requests
        self._asked("allocate", list(one.devices_ids))
        if ",".join(one.devices_ids) in self.holds:
            await self.holds[",".join(one.devices_ids)].wait()
        response = AllocateResponse()
        if self.answers:
            added = response.container_responses.add(envs={"GPUS": ",".join(one.devices_ids)})
            added.cdi_devices.add(name="v.com/gpu=all")
        return response

    async def _pre_start(self, request):
        self._asked("start", list(request.devices_ids))
        return PreStartContainerResponse()


class Side:
    """The kubelet's side: a manager with its server, and what they report to the node."""

    def __init__(self, directory, clock, version="1.36", bugs=None):
        parsed = Version.parse(version)
        features = KubeletFeatures.of(FeatureGates(parsed, bugs=bugs))
        self.clock = clock
        self.registry = CollectorRegistry()
        self.active = set()
        metrics = KubeletMetrics(self.registry)
        self.manager = DevicePluginManager(
            directory / "state",
            clock,
            features,
            metrics,
            ManagerDependencies(lambda: self.active, lambda: None, lambda pods: None),
        )
        self.directory = directory / "plugins"
        self.server = DevicePluginServer(
            self.directory, self.manager, metrics, keeps_newer=features.device_plugins_apart
        )
        self.manager.restore(())
        self.manager.sources_ready()

    async def register(self, endpoint="gpu.sock", resource=GPU, version="v1beta1"):
        channel = grpc_calls.channel_to(self.directory / "kubelet.sock")
        request = RegisterRequest(version=version, endpoint=endpoint, resource_name=resource)
        try:
            await device_plugin.REGISTER.call(channel, request, timeout=5)
        finally:
            await channel.close()

    async def capacity(self, capacity, allocatable):
        async with asyncio.timeout(30):
            while True:
                found = self.manager.capacity()
                if (found.capacity.get(GPU), found.allocatable.get(GPU)) == (capacity, allocatable):
                    return
                await asyncio.sleep(0.01)

    async def admit(self, uid, *containers):
        self.active.add(uid)
        pod = {"metadata": {"uid": uid}, "spec": {"containers": list(containers)}}
        await self.manager.admit(pod)
        return pod


def using(amount, name="main"):
    return {"name": name, "resources": {"limits": {GPU: str(amount)}}}


@pytest.fixture
def directory():
    with tempfile.TemporaryDirectory(prefix="ks") as found:
        yield Path(found)


@pytest.fixture
async def side(directory, clock):
    found = Side(directory, clock)
    await found.server.start()
    yield found
    await found.server.stop()


@pytest.mark.parametrize(("bug", "given"), [(True, "gpu-0,gpu-1"), (False, "gpu-0,gpu-2")])
async def test_a_device_that_a_plugin_is_being_asked_for_may_be_given_again(directory, clock, bug, given):
    """While the plugin answers for one pod, the end of another one has the devices counted again."""
    side = Side(directory, clock, bugs={"k8s-137534": bug})
    await side.server.start()
    plugin = Plugin(side.directory / "gpu.sock")
    await plugin.start()
    await side.register()
    await side.capacity(4, 4)
    await side.admit("old", using(1))
    plugin.holds["gpu-1"] = asyncio.Event()
    slow = asyncio.create_task(side.admit("slow", using(1)))
    await until(lambda: plugin.asked[-1] == ("allocate", ["gpu-1"]))
    side.active.discard("old")
    pod = await side.admit("next", using(2))
    plugin.holds["gpu-1"].set()
    await slow
    found = await side.manager.for_container(pod, using(2))
    await plugin.server.stop(None)
    await side.server.stop()

    assert found.default_env == {"GPUS": given}


@pytest.fixture
async def plugin(side):
    found = Plugin(side.directory / "gpu.sock")
    await found.start()
    yield found
    await found.server.stop(None)


@pytest.fixture
async def registered(side, plugin):
    """The plugin, registered with four devices."""
    await side.register()
    await side.capacity(4, 4)
    return plugin


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (
            {"version": "v1alpha1"},
            'requested API version "v1alpha1" is not supported by kubelet. Supported version is ["v1beta1"]',
        ),
        ({"resource": "gpu"}, 'the ResourceName "gpu" is invalid'),
        ({"resource": "kubernetes.io/gpu"}, 'the ResourceName "kubernetes.io/gpu" is invalid'),
        ({"resource": "requests.example.com/gpu"}, 'the ResourceName "requests.example.com/gpu" is invalid'),
        ({"resource": "example.com/a b"}, 'the ResourceName "example.com/a b" is invalid'),
        (
            {"resource": "deviceclass.resource.kubernetes.io/a"},
            'the ResourceName "deviceclass.resource.kubernetes.io/a" is invalid',
        ),
    ],
)
async def test_bad_registrations_are_refused(side, request_, why):
    """Upstream's words, as an error without a code of its own; each try is counted."""
    with pytest.raises(RpcError) as error:
        await side.register(**request_)
    assert str(error.value) == f"rpc error: code = Unknown desc = {why}"
    labels = {"resource_name": request_.get("resource", GPU)}
    assert side.registry.get_sample_value("kubelet_device_plugin_registration_total", labels) == 1


async def test_a_plugin_that_does_not_answer_is_refused(side, plugin, monkeypatch):
    """No socket at the endpoint; a plugin that does not say its options."""
    monkeypatch.setattr(plugin_server, "_DIAL_SECONDS", 0.1)
    with pytest.raises(RpcError, match="failed to dial device plugin: context deadline exceeded"):
        await side.register(endpoint="nobody.sock")
    plugin.fails["options"] = "no"
    with pytest.raises(RpcError, match="failed to get device plugin options: rpc error: code = Internal"):
        await side.register()
    assert side.manager.capacity().capacity == {}


async def test_plugins_of_the_registry_are_taken_and_left(side, plugin):
    """Validated by version and name, connected at their endpoint, and gone when their socket goes."""
    with pytest.raises(PluginRefusedError) as error:
        side.server.validate(GPU, str(plugin.socket), ["v1", "v2"])
    assert str(error.value) == "manager version, v1beta1, is not among plugin supported versions [v1 v2]"
    with pytest.raises(PluginRefusedError) as error:
        side.server.validate("gpu", str(plugin.socket), ["v1beta1"])
    assert str(error.value) == 'invalid name of device plugin socket: the ResourceName "gpu" is invalid'
    side.server.validate(GPU, str(plugin.socket), ["v1beta1"])
    await side.server.register(GPU, str(plugin.socket), ["v1beta1"])
    await side.capacity(4, 4)
    await side.server.deregister(GPU, str(plugin.socket))
    await side.capacity(4, 0)
    await side.server.deregister("example.com/other", "")


@pytest.mark.parametrize(("version", "allocatable"), [("1.36", 0), ("1.37", 1)])
async def test_an_older_plugin_that_ends_takes_the_newer_one_along(directory, clock, version, allocatable):
    """Up to 1.36: of two plugins for a resource, the end of the first stream ends the second."""
    side = Side(directory, clock, version)
    await side.server.start()
    older, newer = Plugin(side.directory / "gpu.sock"), Plugin(side.directory / "newer.sock")
    newer.devices = ["other-0"]
    for plugin in (older, newer):
        await plugin.start()
        await side.register(endpoint=plugin.socket.name)
        await side.capacity(len(plugin.devices), len(plugin.devices))
    watching = len(side.server._watching)
    older.ends.set()
    await until(lambda: len(side.server._watching) != watching)
    await side.capacity(1, allocatable)
    await newer.server.stop(None)
    await older.server.stop(None)
    await side.server.stop()


async def test_a_plugin_may_prefer_devices(side, registered):
    """A plugin is asked with what is free; what it prefers is taken, what it leaves open is filled up."""
    registered.options.get_preferred_allocation_available = True
    await side.register()
    registered.preferred = ["gpu-3", "gpu-9"]
    await side.admit("a", using(2))
    free = ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
    assert registered.asked[-2:] == [("prefer", free, [], 2), ("allocate", ["gpu-0", "gpu-3"])]
    registered.preferred = None
    await side.admit("b", using(1))
    assert registered.asked[-2:] == [("prefer", ["gpu-1", "gpu-2"], [], 1), ("allocate", ["gpu-1"])]
    registered.fails["prefer"] = "cannot say"
    with pytest.raises(DeviceError) as error:
        await side.admit("c", using(1))
    text = "rpc error: code = Internal desc = cannot say"
    assert str(error.value) == f"device plugin GetPreferredAllocation rpc failed with err: {text}"


async def test_a_plugin_may_be_called_before_a_start(side, registered):
    """At every start of a container that has its devices; its refusal holds the container back."""
    pod = await side.admit("a", using(2), {"name": "side"})
    await side.manager.for_container(pod, using(2))
    assert registered.asked[-1][0] == "allocate"
    registered.options.pre_start_required = True
    await side.register()
    found = await side.manager.for_container(pod, using(2))
    assert registered.asked[-1] == ("start", ["gpu-0", "gpu-1"])
    assert found.default_env == {"GPUS": "gpu-0,gpu-1"}
    assert found.cdi_ids == ["v.com/gpu=all"]
    registered.fails["start"] = "not yet"
    with pytest.raises(DeviceError) as error:
        await side.manager.for_container(pod, using(2))
    text = "rpc error: code = Internal desc = not yet"
    assert str(error.value) == f"device plugin PreStartContainer rpc failed with err: {text}"


async def test_a_container_without_its_devices_gets_them_at_its_start(side, registered):
    """A container without devices, as a restarted kubelet may find it, gets them at its start."""
    pod = {"metadata": {"uid": "a"}, "spec": {"containers": [using(1)]}}
    assert (await side.manager.for_container(pod, using(1))).default_env == {}
    side.active.add("a")
    assert (await side.manager.for_container(pod, using(1))).default_env == {"GPUS": "gpu-0"}


async def test_what_cannot_be_allocated_is_reported(side, registered):
    """An answer without a container, a request that changed, a plugin that is gone."""
    registered.answers = False
    with pytest.raises(DeviceError, match=r"^no containers return in allocation response $"):
        await side.admit("a", using(1))
    registered.answers = True
    pod = await side.admit("b", using(1))
    pod["spec"]["containers"] = [using(2)]
    changed = f'^pod "b" container "main" changed request for resource "{GPU}" from 1 to 2$'
    with pytest.raises(DeviceError, match=changed):
        await side.manager.admit(pod)
    registered.fails["allocate"] = "broken"
    with pytest.raises(DeviceError, match=r"^rpc error: code = Internal desc = broken$"):
        await side.admit("c", using(1))
    assert (
        side.registry.get_sample_value(
            "kubelet_device_plugin_alloc_duration_seconds_count", {"resource_name": GPU}
        )
        == 3
    )


async def test_numa_nodes_of_devices_are_remembered(side, plugin):
    """A device near to two nodes is reported with both."""
    plugin.numa_nodes = {"gpu-0": [0, 1]}
    await side.register()
    await side.capacity(4, 4)
    await side.admit("a", using(2))
    [allocation] = side.manager.devices_of("a", "main").values()
    assert allocation.devices == {-1: ("gpu-1",), 0: ("gpu-0",), 1: ("gpu-0",)}


async def test_devices_of_containers_that_are_gone_are_kept_until_all_pods_are_known(directory, clock):
    """While a kubelet starts, nobody's devices are taken away."""
    side = Side(directory, clock)
    await side.server.start()
    plugin = Plugin(side.directory / "gpu.sock")
    await plugin.start()
    await side.register()
    await side.capacity(4, 4)
    await side.admit("a", using(4))
    side.active.clear()
    await side.server.stop()
    again = Side(directory, clock)
    again.manager._allocator.sources_ready = False
    await again.server.start()
    assert not plugin.socket.exists()
    plugin.socket = again.directory / "again.sock"
    await plugin.start()
    await again.register(endpoint="again.sock")
    await again.capacity(4, 4)
    with pytest.raises(DeviceError, match="Requested: 1, Available: 0"):
        await again.admit("b", using(1))
    again.manager.sources_ready()
    await again.admit("b", using(1))
    assert not again.manager.devices_of("a", "main")
    await plugin.server.stop(None)
    await again.server.stop()

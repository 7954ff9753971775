"""The example device plugin's process: its file, reloads, faults, and a kubelet that comes and goes."""

import asyncio
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from until import until

from kubeskew.apimachinery.process.health_checks import Health
from kubeskew.kubelet.drivers import example_device_plugin
from kubeskew.kubelet.drivers.cli import driver
from kubeskew.kubelet.drivers.example_device_plugin import PluginHost, variable_of
from kubeskew.kubelet.drivers.settings import DriverFileError
from kubeskew.kubelet.protocols import device_plugin, grpc_calls
from kubeskew.kubelet.protocols.device_plugin import AllocateRequest, Empty
from kubeskew.kubelet.protocols.grpc_calls import RpcError

GPU = "example.com/gpu"


class Kubelet:
    """Takes registrations in a directory, and watches the lists of those who register."""

    def __init__(self, directory):
        self.directory = directory
        self.registered = []
        self.lists = asyncio.Queue()

    async def start(self):
        self.server = grpc_calls.new_server()
        device_plugin.REGISTER.serve(self.server, self._register)
        (self.directory / "kubelet.sock").unlink(missing_ok=True)
        self.server.listen(self.directory / "kubelet.sock")
        await self.server.start()

    async def stop(self):
        self.watching.cancel()
        await self.channel.close()
        await self.server.stop(None)

    async def _register(self, request):
        self.registered.append((request.version, request.resource_name, request.endpoint))
        self.channel = grpc_calls.channel_to(self.directory / request.endpoint)
        self.watching = asyncio.create_task(self._watch())
        return Empty()

    async def _watch(self):
        async for response in device_plugin.LIST_AND_WATCH.call(self.channel, Empty()):
            await self.lists.put({device.ID: device.health for device in response.devices})

    async def health(self):
        return await asyncio.wait_for(self.lists.get(), 30)

    async def allocate(self, *devices):
        request = AllocateRequest()
        request.container_requests.add(devices_ids=devices)
        return await device_plugin.ALLOCATE.call(self.channel, request, timeout=5)


@pytest.fixture
def directory():
    with tempfile.TemporaryDirectory(prefix="ks") as found:
        yield Path(found)


@pytest.fixture
async def kubelet(directory):
    found = Kubelet(directory)
    await found.start()
    yield found
    await found.stop()


@pytest.fixture
async def host(directory, clock):
    environment = SimpleNamespace(clock=clock)
    found = PluginHost(SimpleNamespace(environment=environment, health=Health(None)), GPU, lambda: None)
    yield found
    await found.apply(example_device_plugin.PluginFile(()))


def file(directory, revision=0, **entry):
    node = {"name": "node-1", "devicePluginsDir": str(directory), "devices": 2, **entry}
    return example_device_plugin.PluginFile((example_device_plugin.parse_node(node, "test"),), revision)


async def test_devices_come_and_go_with_the_file(directory, kubelet, host):
    """The list is reported again when it changes; a plugin that vanishes takes its socket along."""
    await host.apply(file(directory))
    assert await kubelet.health() == {"gpu-0": "Healthy", "gpu-1": "Healthy"}
    assert kubelet.registered == [("v1beta1", GPU, "example.com_gpu.sock")]
    await host.apply(file(directory, 1, switches={"health": {"gpu-1": "Unhealthy"}}))
    assert await kubelet.health() == {"gpu-0": "Healthy", "gpu-1": "Unhealthy"}
    await host.apply(file(directory, 2, deviceName="card", devices=1))
    assert await kubelet.health() == {"card-0": "Healthy"}
    assert host.state()["nodes"]["node-1"] == {
        "registered": True, "shown": True, "devices": {"card-0": "Healthy"},
    }  # fmt: skip
    await host.apply(file(directory, 3, switches={"vanish": True}))
    await until(lambda: not (directory / "example.com_gpu.sock").exists())
    assert host.state()["revision"] == 3
    assert not host.state()["nodes"]["node-1"]["shown"]


async def test_it_registers_again_with_a_new_kubelet(directory, kubelet, host):
    """A kubelet that starts makes its socket again."""
    await host.apply(file(directory))
    await kubelet.health()
    await kubelet.stop()
    await kubelet.start()
    assert await kubelet.health() == {"gpu-0": "Healthy", "gpu-1": "Healthy"}
    assert len(kubelet.registered) == 2


async def test_what_containers_get(directory, kubelet, host):
    """A variable, device files and mounted files; nothing for devices that it does not have."""
    await host.apply(file(directory))
    await kubelet.health()
    [answer] = (await kubelet.allocate("gpu-0", "gpu-1")).container_responses
    assert dict(answer.envs) == {"EXAMPLE_COM_GPU": "gpu-0,gpu-1"}
    assert [device.container_path for device in answer.devices] == ["/dev/gpu-0", "/dev/gpu-1"]
    assert answer.mounts[1].host_path == str(directory / "example.com_gpu" / "gpu-1")
    assert (directory / "example.com_gpu" / "gpu-1").read_text() == "gpu-1\n"
    with pytest.raises(RpcError, match="invalid allocation request with non-existing device gpu-2"):
        await kubelet.allocate("gpu-2")
    await host.apply(file(directory, switches={"health": {"gpu-1": "Unhealthy"}}))
    await kubelet.health()
    with pytest.raises(RpcError, match="invalid allocation request with unhealthy device: gpu-1"):
        await kubelet.allocate("gpu-1")


def test_variables_are_named_after_resources():
    """Letters, digits and underscores."""
    assert variable_of("my-vendor.com/GPU.v2") == "MY_VENDOR_COM_GPU_V2"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("nodes: 1", "has no list `nodes`"),
        ("nodes: [{name: a}]", "needs name and devicePluginsDir"),
        ("nodes: [{name: a, devicePluginsDir: /d, devices: -1}]", "node a: devices: expected a number"),
        ("nodes: [{name: a, devicePluginsDir: /d, switches: {x: 1}}]", "node a: unknown switch x"),
        ("nodes: [{name: a, devicePluginsDir: /d}, {name: a, devicePluginsDir: /e}]", "names a node twice"),
        ("{", "cannot read device plugin file"),
    ],
)
def test_bad_files_are_refused(tmp_path, content, why):
    """With the file's name, the node and what is wrong."""
    path = tmp_path / "plugin.yaml"
    path.write_text(content)
    with pytest.raises(DriverFileError, match=why):
        example_device_plugin.load(path)


def test_the_command_checks_its_file(tmp_path):
    """Before anything is started."""
    path = tmp_path / "plugin.yaml"
    path.write_text("nodes: [{}]")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch()
    arguments = ["--kubeconfig", str(kubeconfig), "--device-plugin", GPU, "--driver-file", str(path)]
    result = CliRunner().invoke(driver, arguments)
    assert result.exit_code == 2
    assert "needs name and devicePluginsDir" in result.output

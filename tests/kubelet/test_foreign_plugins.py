"""Plugins of other make, as processes of their own, on a node with real sockets."""

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from recorded import DATA

from kubeskew.apimachinery.client.refs import dra_refs
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.node.config import NodeLayout

DRIVER = "gpu.example.com"
PROTOCOLS = DATA / "driver-protocols"
PROGRAMS = Path(__file__).parent


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    """Fresh ones, by protoc, from texts that are not the kubelet's."""
    made = tmp_path_factory.mktemp("stubs")
    protoc = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOCOLS}"]
    outputs = [f"--python_out={made}", f"--grpc_python_out={made}"]
    files = [path.name for path in PROTOCOLS.glob("*.proto")]
    subprocess.run([*protoc, *outputs, *files], check=True, timeout=60)
    return made


class ForeignPlugin:
    """The plugin's process, and what it shows."""

    def __init__(self, process):
        self.process = process

    async def line(self):
        line = await asyncio.wait_for(self.process.stdout.readline(), 30)
        return json.loads(line)

    async def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        await asyncio.wait_for(self.process.wait(), 30)


@pytest.fixture
def layout(node):
    """The node's sockets are in a short directory."""
    with TemporaryDirectory(prefix="ks") as made:
        node.sockets = Path(made)
        layout = NodeLayout.under(node.root, "node-1", node.sockets)
        layout.make()
        yield layout


@pytest.fixture
async def run(node, layout, stubs):
    """Runs programs that end with the test."""

    @asynccontextmanager
    async def running(program, *arguments):
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(PROGRAMS / program),
            str(stubs),
            *map(str, arguments),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            yield ForeignPlugin(process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()

    yield running
    await node.stop()


@pytest.fixture
def driver(run, layout):
    """Runs one instance of the driver."""
    arguments = ("foreign_driver.py", DRIVER, layout.registry, layout.plugins, layout.cdi)
    return lambda instance: run(*arguments, instance)


async def claimed_pod(node, name, claim):
    """A pod with a claim that is allocated and reserved for it."""
    uses = [{"name": "gpu", "request": "req"}]
    made = await node.create(
        name,
        containers=[{"name": "main", "image": "x", "resources": {"claims": uses}}],
        resourceClaims=[{"name": "gpu", "resourceClaimName": claim}],
    )
    result = {"driver": DRIVER, "pool": "node-1", "device": "gpu-0", "request": "req"}
    status = {
        "reservedFor": [{"resource": "pods", "name": name, "uid": made["metadata"]["uid"]}],
        "allocation": {"devices": {"results": [result]}},
    }
    body = {"metadata": {"name": claim, "namespace": "default"}, "status": status}
    await node.client.create(dra_refs(Version(36)).claims, body)


def health(status):
    reported = status["containerStatuses"][0].get("allocatedResourcesStatus") or [{"resources": [{}]}]
    return reported[0]["resources"][0].get("health")


async def test_a_foreign_driver_is_used_updated_and_found_again(node, driver):
    """Registration, a pod with its device, its health, a rolling update, and a crash with its restart."""
    await node.start("1.36")
    async with driver("one") as old:
        assert await old.line() == ["registered", True, ""]
        await claimed_pod(node, "pod-1", "a")
        assert await old.line() == ["prepare", ["a"]]
        await node.running()
        (container,) = node.agent.containers()
        assert container["env"]["GPU"] == "foreign"
        await node.until_pod(lambda status: health(status) == "Healthy", seconds=20)
        old.process.send_signal(signal.SIGUSR1)
        await node.until_pod(lambda status: health(status) == "Unhealthy", seconds=20)

        async with driver("two") as new:
            assert await new.line() == ["registered", True, ""]
            await old.end()
            await node.delete()
            await node.gone()
            assert await new.line() == ["unprepare", ["a"]]
            await new.end(signal.SIGKILL)
        async with driver("two") as again:
            assert await again.line() == ["registered", True, ""]
            await claimed_pod(node, "pod-2", "b")
            assert await again.line() == ["prepare", ["b"]]
            await node.running("pod-2")
            await again.end()


async def test_a_foreign_device_plugin_is_used_and_found_again(node, run, layout):
    """Registration, a pod with the device that the plugin prefers, and a restart of the kubelet."""
    resource = "example.com/gpu"

    def pod(name):
        limits = {resource: "1"}
        resources = {"requests": limits, "limits": limits}
        return node.create(name, containers=[{"name": "main", "image": "x", "resources": resources}])

    async def offered():
        return (await node.node())["status"]["allocatable"].get(resource) == "2"

    await node.start("1.36")
    async with run("foreign_device_plugin.py", resource, layout.device_plugins) as plugin:
        assert await plugin.line() == ["registered"]
        await node.until(offered, seconds=20)
        await pod("pod-1")
        assert [await plugin.line() for _ in range(2)] == [["allocate", ["gpu-1"]], ["pre-start", ["gpu-1"]]]
        await node.running()
        (container,) = node.agent.containers()
        assert container["env"]["GPUS"] == "gpu-1"
        assert [device["path"] for device in container["devices"]] == ["/dev/gpu-1"]

        await node.stop()
        await node.start("1.36")
        assert await plugin.line() == ["registered"]
        await node.until(offered, seconds=20)
        await pod("pod-2")
        assert await plugin.line() == ["allocate", ["gpu-0"]]
        await node.running("pod-2")
        await plugin.end()

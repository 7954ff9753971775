"""A driver of other make, as a process of its own, on a node with real sockets."""

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from apimachinery.client.refs import dra_refs
from apimachinery.versions import Version
from kubelet.layout import NodeLayout

DRIVER = "gpu.example.com"
PROTOCOLS = Path(__file__).parent.parent / "data" / "driver-protocols"
PROGRAM = Path(__file__).parent / "foreign_driver.py"


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    """Fresh ones, by protoc, from texts that are not the kubelet's."""
    made = tmp_path_factory.mktemp("stubs")
    protoc = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTOCOLS}"]
    outputs = [f"--python_out={made}", f"--grpc_python_out={made}"]
    files = [path.name for path in PROTOCOLS.glob("*.proto")]
    subprocess.run([*protoc, *outputs, *files], check=True, timeout=60)
    return made


class ForeignDriver:
    """The driver's process, and what it tells."""

    def __init__(self, process):
        self.process = process

    async def told(self):
        line = await asyncio.wait_for(self.process.stdout.readline(), 20)
        return json.loads(line)

    async def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        await asyncio.wait_for(self.process.wait(), 20)


@pytest.fixture
async def run(node, stubs):
    """Runs instances of the driver for `node`, whose sockets are in a short directory."""
    with TemporaryDirectory(prefix="ks") as made:
        node.sockets = Path(made)
        layout = NodeLayout.under(node.root, "node-1", node.sockets)
        layout.make()
        directories = [layout.registry, layout.plugins, layout.cdi]

        @asynccontextmanager
        async def running(*instance):
            arguments = [str(PROGRAM), str(stubs), DRIVER, *map(str, directories), *instance]
            process = await asyncio.create_subprocess_exec(
                sys.executable, *arguments, stdout=asyncio.subprocess.PIPE
            )
            try:
                yield ForeignDriver(process)
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()

        yield running
        await node.stop()


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
    told = status["containerStatuses"][0].get("allocatedResourcesStatus") or [{"resources": [{}]}]
    return told[0]["resources"][0].get("health")


async def test_a_foreign_driver_is_used_updated_and_found_again(node, run):
    """Registration, a pod with its device, its health, a rolling update, and a crash with its restart."""
    await node.start("1.36")
    async with run("one") as old:
        assert await old.told() == ["registered", True, ""]
        await claimed_pod(node, "pod-1", "a")
        assert await old.told() == ["prepare", ["a"]]
        await node.running()
        (container,) = node.agent.containers()
        assert container["env"]["GPU"] == "foreign"
        await node.until_pod(lambda status: health(status) == "Healthy", seconds=20)
        old.process.send_signal(signal.SIGUSR1)
        await node.until_pod(lambda status: health(status) == "Unhealthy", seconds=20)

        async with run("two") as new:
            assert await new.told() == ["registered", True, ""]
            await old.end()
            await node.delete()
            await node.gone()
            assert await new.told() == ["unprepare", ["a"]]
            await new.end(signal.SIGKILL)
        async with run("two") as again:
            assert await again.told() == ["registered", True, ""]
            await claimed_pod(node, "pod-2", "b")
            assert await again.told() == ["prepare", ["b"]]
            await node.running("pod-2")
            await again.end()

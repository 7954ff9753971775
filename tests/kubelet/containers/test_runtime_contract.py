"""The contract of a runtime's interface, held by acted containers and by a client of CRI v1 over the same."""

import asyncio

import pytest
from remote_node import RemoteNode, ServedRuntime
from until import until

from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.kubelet.containers.runtime_service import (
    CommandTimeoutError,
    ContainerConfig,
    ContainerResources,
    ContainerRuntimeError,
    PodSandboxConfig,
)
from kubeskew.kubelet.containers.simulated.runtime import SimulatedImages, SimulatedRuntime

UID = "f0be0bd8-a679-4044-b966-25baadb0497f"


class Acted:
    """The simulated runtime of a node."""

    def __init__(self, directory):
        self.directory, self.logs = directory, directory / "logs"
        self.clock = SystemClock()
        self.images = SimulatedImages()

    async def start(self):
        self.runtime = SimulatedRuntime(self.directory / "acted", "node-1", self.clock, SeededEntropy(7))
        await self.runtime.load()

    async def stop(self):
        pass

    close = stop


class ByCRI:
    """The client of a node at the socket of a runtime."""

    def __init__(self, directory):
        self.served = ServedRuntime(directory)
        self.clock = self.served.clock

    async def start(self):
        if self.served.service is None:
            await self.served.start()
        self.node = RemoteNode(self.served)
        await self.node.start()
        self.runtime, self.images = self.node.runtime, self.node.runtime.images
        self.logs = self.node.place.logs

    async def stop(self):
        await self.node.stop()

    async def close(self):
        await self.stop()
        await self.served.close()


@pytest.fixture(params=[Acted, ByCRI])
async def node(request, tmp_path, monkeypatch):
    monkeypatch.setattr("kubeskew.kubelet.containers.remote.runtime._RELIST_SECONDS", 0.05)
    monkeypatch.setattr("kubeskew.kubelet.containers.remote.runtime._COLLECTION_SECONDS", 0.1)
    made = request.param(tmp_path)
    await made.start()
    yield made
    await made.close()


async def sandbox_of(node):
    config = PodSandboxConfig(UID, "default", "web", "web", node.logs / f"default_web_{UID}")
    return await node.runtime.run_pod_sandbox(config)


async def started(node, sandbox, *command, name="main", **fields):
    config = ContainerConfig(name, "busybox", command, **fields)
    return await node.runtime.start_container(sandbox, config)


def has_ended(node, container):
    return lambda: not container.running(node.clock.now())


class Streams:
    """A client with something to say, which notes what it is told."""

    def __init__(self, *said):
        self.said = [*said, b""]
        self.told = {"stdout": b"", "stderr": b""}

    async def read(self):
        return self.said.pop(0) if self.said else b""

    async def write_stdout(self, data):
        self.told["stdout"] += data

    async def write_stderr(self, data):
        self.told["stderr"] += data

    async def resized(self):
        await asyncio.Event().wait()


async def test_a_sandbox_comes_and_goes(node):
    """A sandbox has its pod's address, stays readable when it is stopped, and is gone once removed."""
    made = await sandbox_of(node)
    assert (made.pod_uid, made.namespace, made.name, made.ready) == (UID, "default", "web", True)
    assert made.ip
    assert node.runtime.sandbox(UID) is made
    container = await started(node, made, "sleep", "1000")
    await node.runtime.stop_pod_sandbox(made)
    await until(has_ended(node, container))
    assert (made.ready, container.exit_code) == (False, 137)
    again = await sandbox_of(node)
    assert again.ready
    await node.runtime.remove_pod_sandbox(UID)
    await node.runtime.remove_pod_sandbox(UID)
    assert node.runtime.sandbox(UID) is None
    assert [*node.runtime.sandboxes()] == []


async def test_attempts_of_a_container(node):
    """Each start is an attempt with its own end; of those that have ended, two are kept, if not at once."""
    sandbox = await sandbox_of(node)
    for attempt in range(3):
        container = await started(node, sandbox, "sh", "-c", f"echo {attempt}; exit {attempt}")
        await until(has_ended(node, container))
        assert (container.attempt, container.exit_code) == (attempt, attempt)
    await until(lambda: [each.attempt for each in sandbox.containers] == [1, 2])
    assert sandbox.latest("main").exit_code == 2
    assert sandbox.previous("main").exit_code == 1


async def test_a_container_stops(node):
    """A stop is a signal that ends the program; the kubelet learns of the end."""
    changed = asyncio.Event()
    node.runtime.on_change = lambda _uid: changed.set()
    sandbox = await sandbox_of(node)
    container = await started(node, sandbox, "sleep", "1000")
    assert container.running(node.clock.now())
    node.runtime.stop_container(sandbox, container, 30)
    await until(has_ended(node, container))
    assert container.exit_code == 0
    if isinstance(node, ByCRI):  # else the record says so beforehand
        await asyncio.wait_for(changed.wait(), 10)


async def test_a_second_stop_brings_the_end_forward(node):
    """A container that ignores its signal is killed when the shorter of two graces is over."""
    sandbox = await sandbox_of(node)
    deaf = {"kubelet.kubeskew.io/on-sigterm": "ignore"}
    container = await started(node, sandbox, "sleep", "1000", annotations=deaf)
    node.runtime.stop_container(sandbox, container, 60)
    await asyncio.sleep(0.2)
    assert container.running(node.clock.now())
    node.runtime.stop_container(sandbox, container, 90)
    node.runtime.stop_container(sandbox, container, 0)
    await until(has_ended(node, container))
    assert container.exit_code == 137


async def test_commands(node):
    """A command gives its output and exit code; one that takes too long, and one that is none, say so."""
    sandbox = await sandbox_of(node)
    container = await started(node, sandbox, "sleep", "1000")
    result = await node.runtime.exec_sync(sandbox, container, ["sh", "-c", "echo here; exit 4"], 5)
    assert (result.exit_code, result.stdout, result.stderr) == (4, b"here\n", b"")
    with pytest.raises(CommandTimeoutError, match="context deadline exceeded"):
        await node.runtime.exec_sync(sandbox, container, ["sleep", "60"], 1)
    streams = Streams(b"in")
    code = await node.runtime.exec(
        *(sandbox, container, ["sh", "-c", "echo out; exit 5"], streams), stdin=True, tty=False
    )
    assert (code, streams.told["stdout"]) == (5, b"out\n")
    with pytest.raises(ContainerRuntimeError, match='exec: "nothing": executable file not found'):
        await node.runtime.exec(sandbox, container, ["nothing"], Streams(), stdin=False, tty=False)


async def test_logs(node):
    """The output is there while a container runs and afterwards, and is followed to its end."""
    sandbox = await sandbox_of(node)
    container = await started(node, sandbox, "sh", "-c", "echo one; sleep 1; echo two")
    await until(lambda: node.runtime.logs(sandbox, container))
    following = node.runtime.follow_logs(sandbox, container)
    assert [line.data async for line in following] == [b"two\n"]
    await until(has_ended(node, container))
    lines = [(line.stream, line.data) for line in node.runtime.logs(sandbox, container)]
    assert lines == [("stdout", b"one\n"), ("stdout", b"two\n")]


async def test_ports(node):
    """A forwarded port answers; the error of one that does not is the runtime's, at the latest when it is
    read."""
    sandbox = await sandbox_of(node)
    ports = {"io.kubernetes.container.ports": '[{"containerPort":80}]'}
    await started(node, sandbox, "sleep", "1000", annotations=ports)
    connection = await node.runtime.port_forward(sandbox, 80)
    await connection.write(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")
    assert (await connection.read()).startswith(b"HTTP/1.1 200")
    await connection.close()
    with pytest.raises(OSError, match="connection refused"):
        await read_from(node, sandbox, 81)


async def read_from(node, sandbox, port):
    connection = await node.runtime.port_forward(sandbox, port)
    try:
        return await connection.read()
    finally:
        await connection.close()


async def test_another_user_of_the_same_pods(node):
    """A runtime that is made again on the same directory has what runs, and what it was asked for."""
    sandbox = await sandbox_of(node)
    container = await started(node, sandbox, "sleep", "1000", env={"A": "b"}, tty=True)
    await started(node, sandbox, "exit", "3", name="short")
    await node.stop()
    await node.start()
    again = node.runtime.sandbox(UID)
    assert (again.id, again.ip, again.ready) == (sandbox.id, sandbox.ip, True)
    found = again.latest("main")
    assert (found.id, found.env, found.tty, found.argv) == (container.id, {"A": "b"}, True, ["sleep", "1000"])
    assert found.running(node.clock.now())
    await until(has_ended(node, again.latest("short")))
    assert again.latest("short").exit_code == 3
    more = await started(node, again, "sleep", "1000", name="short")
    assert more.attempt == 1


async def test_limits_and_use(node):
    """Limits of a running container change, and its use is measured."""
    sandbox = await sandbox_of(node)
    use = {"kubelet.kubeskew.io/cores": "0.5", "kubelet.kubeskew.io/memory": "4096"}
    container = await started(node, sandbox, "sleep", "1000", annotations=use)
    limits = ContainerResources(cpu_shares=512, memory_bytes=1 << 26)
    await node.runtime.update_resources(sandbox, container, limits, use)
    await node.runtime.reopen_log(sandbox, container)
    await node.runtime.measure()
    found = node.runtime.stats(sandbox, container)
    assert (found.working_set, found.cores) == (4096, 0.5)
    assert found.core_seconds > 0


async def test_images(node):
    """An image is known by its name, and comes again when it is pulled."""
    found = await node.images.image("busybox")
    assert found is not None
    assert [*found.names] == ["docker.io/library/busybox:latest"]
    pulled = await node.images.pull_image("busybox")
    assert (pulled.id, pulled.reference) == (found.id, found.reference)
    await node.images.remove_image("busybox")
    assert [*await node.images.images()] == []


async def test_the_node_is_well(node):
    """A runtime that answers says its version, and no reason for which the node would not be ready."""
    name, slashes, version = node.runtime.version.partition("://")
    assert (name, slashes, bool(version)) == ("containerd", "://", True)
    assert node.runtime.problem() == ""

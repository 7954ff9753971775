"""A container runtime whose containers are records in memory: they run until a test or SIGTERM ends them."""

import asyncio
from datetime import timedelta
from types import SimpleNamespace

from kubeskew.kubelet.containers.runtime_service import (
    CommandResult,
    CommandTimeoutError,
    ContainerRuntimeError,
    ContainerStats,
    Image,
    ImageError,
    LogLine,
)
from kubeskew.kubelet.containers.sandbox import Container, Sandbox

DIGEST = "5" * 64


class RuntimeInMemory:
    """Has the images named `nginx` and `busybox`; commands echo their words.

    `sleep` runs longer than anybody waits, `missing` is no program.
    """

    def __init__(self, clock):
        self.clock = clock
        self.on_change = lambda _uid: None
        self.runs_programs = self.is_remote = False
        self.version = "containerd://test"
        self.by_uid = {}
        self.ids = iter(range(1, 1000))
        self.configs = {}  # by the container's id
        self.updates = []
        self.lines = {}
        self.streams = {}
        self.reopened = []  # ids of containers whose kubelet has renamed their log
        self.pulled = ["docker.io/library/busybox:latest"]

    # -- images

    async def images(self):
        return [self._image(name) for name in self.pulled]

    async def image(self, name):
        found = await self.images()
        return next((each for each in found if name in {each.id, each.reference, *each.names}), None)

    async def remove_image(self, name):
        self.pulled = [each for each in self.pulled if each != name]

    def _image(self, name):
        return Image(f"sha256:{DIGEST}", f"{name.rpartition(':')[0]}@sha256:{DIGEST}", 1000, [name], "65534")

    async def pull_image(self, name):
        if "missing" in name:
            raise ImageError(
                "ErrImagePull",
                f"rpc error: code = NotFound desc = failed to resolve image: {name}: not found",
            )
        if name not in self.pulled:
            self.pulled.append(name)
        return self._image(name)

    # -- sandboxes and containers

    async def load(self):
        pass

    def problem(self):
        return ""

    async def measure(self):
        pass

    async def run(self):
        await asyncio.Event().wait()

    def sandboxes(self):
        return [*self.by_uid.values()]

    def sandbox(self, pod_uid):
        return self.by_uid.get(pod_uid)

    async def run_pod_sandbox(self, config):
        if config.name == "refused":
            raise ContainerRuntimeError("failed to setup network for sandbox")
        sandbox = Sandbox(
            *(config.uid, config.namespace, config.name, f"sandbox-{next(self.ids)}", "10.128.1.2"),
            self.clock.now(),
        )
        self.by_uid[config.uid] = sandbox
        return sandbox

    async def stop_pod_sandbox(self, sandbox):
        sandbox.ready = False
        for container in sandbox.running(self.clock.now()):
            container.ends_at, container.exit_code = self.clock.now(), 137

    async def remove_pod_sandbox(self, pod_uid):
        self.by_uid.pop(pod_uid, None)

    async def start_container(self, sandbox, config):
        before = sandbox.latest(config.name)
        container = Container(
            id=f"run-{next(self.ids)}",
            name=config.name,
            attempt=before.attempt + 1 if before else 0,
            image=config.image,
            started_at=self.clock.now(),
            ends_at=None,
            exit_code=0,
            stops_after=0.0,
        )
        if "missing" in config.command:
            container.ends_at, container.exit_code = self.clock.now(), 128
            container.reason, container.message = "StartError", 'exec: "missing": not found'
        sandbox.containers.append(container)
        self.configs[container.id] = config
        return container

    def end(self, container, code=0, reason=""):
        """Ends a container as its program does."""
        container.ends_at, container.exit_code, container.reason = self.clock.now(), code, reason
        pod = next(uid for uid, sandbox in self.by_uid.items() if container in sandbox.containers)
        self.on_change(pod)

    def stop_container(self, sandbox, container, grace):
        container.ends_at = self.clock.now() + timedelta(seconds=min(grace, 2.0))
        container.exit_code = 0 if grace else 137

    async def update_resources(self, sandbox, container, resources, annotations=None):
        self.updates.append(resources)

    def stats(self, sandbox, container, at=None):
        return ContainerStats(1.5, 4096, 2048, written=512, cores=0.25)

    # -- within

    def log(self, container, text, stream="stdout"):
        """Writes output of a container."""
        line = LogLine(self.clock.now(), stream, text.encode())
        self.lines.setdefault(container.id, []).append(line)
        for queue in self.streams.get(container.id, []):
            queue.put_nowait(line)

    def logs(self, sandbox, container):
        return self.lines.get(container.id, [])

    def follow_logs(self, sandbox, container):
        queue = asyncio.Queue()
        self.streams.setdefault(container.id, []).append(queue)

        async def lines():
            while True:
                yield await queue.get()

        return lines()

    async def reopen_log(self, sandbox, container):
        self.reopened.append(container.id)

    async def exec_sync(self, sandbox, container, command, seconds):
        if command[0] == "sleep":
            raise CommandTimeoutError("context deadline exceeded")
        if command[0] == "missing":
            raise ContainerRuntimeError('exec: "missing": executable file not found in $PATH')
        return CommandResult(3 if command[0] == "false" else 0, " ".join(command).encode(), b"err")

    async def exec(self, sandbox, container, command, streams, *, stdin, tty):
        if command[0] == "missing":
            raise ContainerRuntimeError('exec: "missing": executable file not found in $PATH')
        await streams.write_stdout(" ".join(command).encode())
        if stdin:
            while data := await streams.read():
                await streams.write_stdout(data.upper())
        await streams.write_stderr(b"done")
        return 3 if command[0] == "false" else 0

    async def attach(self, sandbox, container, streams, *, stdin):
        await streams.write_stdout(b"attached")

    async def port_forward(self, sandbox, port):
        return await self.dial(sandbox, port)

    async def dial(self, sandbox, port):
        if port != 80:
            raise ConnectionRefusedError("connection refused")
        return _Echo()


class _Echo:
    """A connection whose other end sends back what it gets, in capitals, and ends at an empty line."""

    def __init__(self):
        self.queue = asyncio.Queue()

    async def read(self):
        return await self.queue.get()

    async def write(self, data):
        self.queue.put_nowait(data.upper())
        if data.endswith(b"\n\n"):
            self.queue.put_nowait(b"")

    async def close(self):
        self.queue.put_nowait(b"")


def streaming():
    """URLs that name what is asked for."""
    return SimpleNamespace(
        exec_url=lambda _sandbox, container, request: f"exec/{container.name}/{' '.join(request.cmd)}",
        attach_url=lambda _sandbox, container, _request: f"attach/{container.name}",
        port_forward_url=lambda sandbox, _request: f"ports/{sandbox.name}",
    )

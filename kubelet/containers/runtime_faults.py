"""Faults of a node's container runtime: calls that are refused, lost or late, by the names of CRI's methods.

They stand before the runtime of an emulated kubelet (`with_faults`), and before each method of the service
that a real one calls (`RuntimeFaults.call`). A runtime that is not there, or silent for long, makes the node
not ready (`RuntimeHealth`).

Sources: pkg/kubelet/kubelet.go (updateRuntimeUp), pkg/kubelet/runtime.go, and the timeouts of the CRI client
in k8s.io/cri-client/pkg, 1.31 … 1.36.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import grpc

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.faults.fault import RUNTIME, Call
from kubeskew.apimachinery.faults.injector import Injector
from kubeskew.kubelet.containers.runtime_service import (
    CommandResult,
    CommandStreams,
    Connection,
    ContainerConfig,
    ContainerResources,
    ContainerRuntimeError,
    ContainerStartError,
    ContainerStats,
    Image,
    ImageError,
    ImageService,
    LogLine,
    PodSandboxConfig,
    RuntimeService,
    RuntimeStatus,
)
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.protocols.grpc_calls import RpcError

T = TypeVar("T")

_CALL_SECONDS = 120.0  # runtimeRequestTimeout
_SANDBOX_SECONDS = 2 * _CALL_SECONDS
_HEALTHY_SECONDS = 30.0  # maxWaitForContainerRuntime
_DOWN = "container runtime is down"
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.ALREADY_EXISTS,
    410: grpc.StatusCode.FAILED_PRECONDITION,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}


class RuntimeFaults:
    """The faults of one kubelet, put before the calls of its runtime."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector

    @property
    def present(self) -> bool:
        return self._injector.decider is not None

    async def call(
        self, verb: str, send: Callable[[], Awaitable[T]], namespace: str = "", name: str = ""
    ) -> T:
        """Raises RpcError for a call that a fault ends, and what `send` raises."""
        try:
            return await self._injector.inject_local(
                Call(verb, RUNTIME, namespace=namespace, name=name), send
            )
        except StatusError as error:
            raise RpcError(_CODES.get(error.code, grpc.StatusCode.UNKNOWN), error.message) from error
        except ConnectionError as error:
            raise RpcError(grpc.StatusCode.UNAVAILABLE, f"error reading from server: {error}") from error

    async def timed(
        self,
        verb: str,
        send: Callable[[], Awaitable[T]],
        of: Sandbox | PodSandboxConfig,
        seconds: float | None,
    ) -> T:
        """Makes a call as a kubelet's client does, which gives up after that time; None: never."""
        if not self.present:
            return await send()
        try:
            async with asyncio.timeout(seconds):
                return await self.call(verb, send, of.namespace, of.name)
        except TimeoutError as error:
            raise RpcError(grpc.StatusCode.DEADLINE_EXCEEDED, "context deadline exceeded") from error


async def _nothing() -> None:
    pass


class FaultyRuntime:
    """A runtime with the faults of its kubelet before it."""

    def __init__(self, runtime: RuntimeService, faults: RuntimeFaults) -> None:
        self._runtime = runtime
        self._faults = faults
        self.runs_programs = runtime.runs_programs
        self.is_remote = runtime.is_remote

    @property
    def version(self) -> str:
        return self._runtime.version

    @property
    def status(self) -> RuntimeStatus:
        return self._runtime.status

    @property
    def on_change(self) -> Callable[[str], None]:
        return self._runtime.on_change

    @on_change.setter
    def on_change(self, value: Callable[[str], None]) -> None:
        self._runtime.on_change = value

    def problem(self) -> str:
        return self._runtime.problem()

    async def load(self) -> None:
        await self._runtime.load()

    async def run(self) -> None:
        await self._runtime.run()

    def sandboxes(self) -> Sequence[Sandbox]:
        return self._runtime.sandboxes()

    def sandbox(self, pod_uid: str) -> Sandbox | None:
        return self._runtime.sandbox(pod_uid)

    async def run_pod_sandbox(self, config: PodSandboxConfig) -> Sandbox:
        def run() -> Awaitable[Sandbox]:
            return self._runtime.run_pod_sandbox(config)

        try:
            return await self._faults.timed("RunPodSandbox", run, config, _SANDBOX_SECONDS)
        except RpcError as error:
            raise ContainerRuntimeError(str(error)) from error

    async def stop_pod_sandbox(self, sandbox: Sandbox) -> None:
        def stop() -> Awaitable[None]:
            return self._runtime.stop_pod_sandbox(sandbox)

        try:
            await self._faults.timed("StopPodSandbox", stop, sandbox, _CALL_SECONDS)
        except RpcError as error:
            raise ContainerRuntimeError(str(error)) from error

    async def remove_pod_sandbox(self, pod_uid: str) -> None:
        def remove() -> Awaitable[None]:
            return self._runtime.remove_pod_sandbox(pod_uid)

        sandbox = self._runtime.sandbox(pod_uid)
        if sandbox is None:  # a kubelet does not ask for one that it does not see
            return await remove()
        try:
            await self._faults.timed("RemovePodSandbox", remove, sandbox, _CALL_SECONDS)
        except RpcError as error:
            raise ContainerRuntimeError(str(error)) from error

    async def start_container(self, sandbox: Sandbox, config: ContainerConfig) -> Container:
        def start() -> Awaitable[Container]:
            return self._runtime.start_container(sandbox, config)

        try:
            await self._faults.timed("CreateContainer", _nothing, sandbox, _CALL_SECONDS)
        except RpcError as error:
            raise ContainerRuntimeError(error.description) from error
        try:
            return await self._faults.timed("StartContainer", start, sandbox, _CALL_SECONDS)
        except RpcError as error:
            raise ContainerStartError(error.description) from error

    def stop_container(self, sandbox: Sandbox, container: Container, grace: float) -> None:
        self._runtime.stop_container(sandbox, container, grace)

    async def update_resources(
        self,
        sandbox: Sandbox,
        container: Container,
        resources: ContainerResources,
        annotations: Mapping[str, str],
    ) -> None:
        def update() -> Awaitable[None]:
            return self._runtime.update_resources(sandbox, container, resources, annotations)

        try:
            await self._faults.timed("UpdateContainerResources", update, sandbox, _CALL_SECONDS)
        except RpcError as error:
            raise ContainerRuntimeError(str(error)) from error

    async def measure(self) -> None:
        await self._runtime.measure()

    def stats(self, sandbox: Sandbox, container: Container, at: datetime | None = None) -> ContainerStats:
        return self._runtime.stats(sandbox, container, at)

    def logs(self, sandbox: Sandbox, container: Container) -> Sequence[LogLine]:
        return self._runtime.logs(sandbox, container)

    def follow_logs(self, sandbox: Sandbox, container: Container) -> AsyncIterator[LogLine]:
        return self._runtime.follow_logs(sandbox, container)

    async def reopen_log(self, sandbox: Sandbox, container: Container) -> None:
        def reopen() -> Awaitable[None]:
            return self._runtime.reopen_log(sandbox, container)

        try:
            await self._faults.timed("ReopenContainerLog", reopen, sandbox, _CALL_SECONDS)
        except RpcError as error:
            raise ContainerRuntimeError(str(error)) from error

    async def exec_sync(
        self, sandbox: Sandbox, container: Container, command: Sequence[str], seconds: float
    ) -> CommandResult:
        def run() -> Awaitable[CommandResult]:
            return self._runtime.exec_sync(sandbox, container, command, seconds)

        limit = _CALL_SECONDS + seconds if seconds > 0 else None  # remote_runtime.go, ExecSync
        try:
            return await self._faults.timed("ExecSync", run, sandbox, limit)
        except RpcError as error:
            raise ContainerRuntimeError(str(error)) from error

    async def exec(
        self,
        sandbox: Sandbox,
        container: Container,
        command: Sequence[str],
        streams: CommandStreams,
        *,
        stdin: bool,
        tty: bool,
    ) -> int:
        return await self._runtime.exec(sandbox, container, command, streams, stdin=stdin, tty=tty)

    async def attach(
        self, sandbox: Sandbox, container: Container, streams: CommandStreams, *, stdin: bool
    ) -> None:
        await self._runtime.attach(sandbox, container, streams, stdin=stdin)

    async def dial(self, sandbox: Sandbox, port: int) -> Connection:
        return await self._runtime.dial(sandbox, port)

    async def port_forward(self, sandbox: Sandbox, port: int) -> Connection:
        return await self._runtime.port_forward(sandbox, port)


class FaultyImages:
    """A node's images with the faults of its kubelet before their pulls."""

    def __init__(self, images: ImageService, faults: RuntimeFaults) -> None:
        self._images = images
        self._faults = faults

    async def images(self) -> Sequence[Image]:
        return await self._images.images()

    async def image(self, name: str) -> Image | None:
        return await self._images.image(name)

    async def remove_image(self, name: str) -> None:
        await self._images.remove_image(name)

    async def pull_image(self, name: str) -> Image:
        try:
            return await self._faults.call("PullImage", lambda: self._images.pull_image(name), name=name)
        except RpcError as error:
            raise ImageError("ErrImagePull", str(error)) from error


class RuntimeHealth:
    """Asks the runtime for its status from time to time, while there are faults that may end the call."""

    def __init__(self, faults: RuntimeFaults | None, clock: Clock) -> None:
        self._faults = faults
        self._clock = clock
        self._answered = clock.monotonic()
        self._asking: asyncio.Task[None] | None = None

    def look(self) -> str:
        """Begins to ask, and returns why the node is not ready; empty while the runtime answers."""
        now = self._clock.monotonic()
        if self._faults is None or not self._faults.present:
            self.stop()
            self._answered = now
            return ""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask(self._faults), name="status of the runtime")
        return _DOWN if now - self._answered >= _HEALTHY_SECONDS else ""

    def stop(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    async def _ask(self, faults: RuntimeFaults) -> None:
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                await faults.call("Status", _nothing)
        except (RpcError, TimeoutError):
            return
        self._answered = self._clock.monotonic()

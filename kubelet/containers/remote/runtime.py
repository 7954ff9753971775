"""The runtime of one node that speaks CRI v1 at a Unix socket.

What runs is the runtime's to know. The kubelet finds its pods again by a label of the node's, and their
containers by upstream's labels; it follows them by lists (`pod_cache.py`), and with the gate EventedPLEG by
the runtime's events, where it has them.

Source: pkg/kubelet/kuberuntime (kuberuntime_manager.go, kuberuntime_container.go, kuberuntime_gc.go),
pkg/kubelet/pleg (generic.go, evented.go) and k8s.io/cri-client/pkg/remote_runtime.go, 1.36.
"""

import asyncio
import errno
import hashlib
import json
import logging
import math
import re
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import grpc

from kubeskew.apimachinery.client.rest import FailureLog
from kubeskew.apimachinery.clock import Clock
from kubeskew.kubelet.containers import log_reader
from kubeskew.kubelet.containers.http_client import StreamConnection
from kubeskew.kubelet.containers.remote import log_rotation, requests
from kubeskew.kubelet.containers.remote.calls import SECONDS, RuntimeCalls
from kubeskew.kubelet.containers.remote.health import STATUS_SECONDS, RuntimeState, runtime_status
from kubeskew.kubelet.containers.remote.images import RemoteImages
from kubeskew.kubelet.containers.remote.measured_use import MeasuredUse
from kubeskew.kubelet.containers.remote.pod_cache import Listed, PodCache, RequestFiles
from kubeskew.kubelet.containers.remote.records import STATES, RemoteContainer
from kubeskew.kubelet.containers.remote.streams import forward, talk
from kubeskew.kubelet.containers.runtime_service import (
    CommandResult,
    CommandStreams,
    CommandTimeoutError,
    Connection,
    ContainerConfig,
    ContainerResources,
    ContainerRuntimeError,
    ContainerStartError,
    ContainerStats,
    LogLine,
    PodSandboxConfig,
    RuntimeStatus,
)
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.files import UNJOURNALLED, StateFiles
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages

log = logging.getLogger(__name__)

PLACE = "runtime.json"  # in the directory of requests: the endpoint, and the label of the node's pods
_RELIST_SECONDS, _RELIST_THRESHOLD = 1.0, 180.0  # genericPlegRelistPeriod
_EVENTED_SECONDS, _EVENTED_THRESHOLD = 300.0, 600.0  # eventedPlegRelistPeriod
_STREAMS = 5  # of events that may break before the kubelet goes on without (eventedPlegMaxStreamRetries)
_RETRY_SECONDS = 1.0
_COLLECTION_SECONDS = 60.0  # ContainerGCPeriod
_POLL_SECONDS = 0.1
_KEPT_ATTEMPTS = 2  # the newest one and one dead before it (MaxPerPodContainer)
_FOREVER = 1e6  # seconds: hooks have no limit
_LONGEST_NAME = 46  # characters of a node's name in its label
_LOG_NAME = re.compile(r"(\d+)\.log.*")
_NO_USER_NAMESPACES = "can't set `spec.hostUsers: false`, runtime does not support user namespaces"


def node_label(name: str, directory: Path) -> str:
    """The value by which the pods of a node are known, of whatever cluster on this machine."""
    digest = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()
    return f"{name[:_LONGEST_NAME].rstrip('.-')}-{digest[:16]}"


@dataclass(frozen=True, slots=True)
class RemotePlace:
    """The directories of one node: what its runtime was asked for, the logs of its pods, profiles of
    seccomp; and the node's address."""

    requests: Path
    logs: Path
    seccomp: Path
    address: str


@dataclass(slots=True)
class _Stop:
    """A container that is being stopped."""

    deadline: float  # monotonic
    task: asyncio.Task[None]


class RemoteRuntime:
    """Runs the pods of one node. Call `load` first."""

    runs_programs = True
    is_remote = True

    def __init__(
        self,
        endpoint: str,
        node_name: str,
        place: RemotePlace,
        clock: Clock,
        *,
        files: StateFiles = UNJOURNALLED,
        follows_events: bool = False,
        calls: RuntimeCalls | None = None,
    ) -> None:
        """`calls` are by default those to the endpoint. Raises ContainerRuntimeError for one that is none."""
        self._calls = RuntimeCalls(endpoint) if calls is None else calls
        self._node_name = node_name
        self._label = node_label(node_name, place.requests)
        self._place = place
        self._clock = clock
        self._files = files
        self._follows_events = follows_events
        self.images = RemoteImages(self._calls)
        self._requests = RequestFiles(place.requests, files)
        self._cache = PodCache(self._calls, self._requests, self._label, place.address, clock)
        self._state = RuntimeState(clock)
        self._status = RuntimeStatus((), supplemental_groups_policy=None)
        self._version = messages.VersionResponse()
        self._list_failures, self._status_failures = FailureLog(log, clock), FailureLog(log, clock)
        self._garbage_failures = FailureLog(log, clock)
        self._stops: dict[str, _Stop] = {}
        self._use = MeasuredUse()
        self._relist_now = asyncio.Event()

    # -- life

    @property
    def on_change(self) -> Callable[[str], None]:
        return self._cache.on_change

    @on_change.setter
    def on_change(self, value: Callable[[str], None]) -> None:
        self._cache.on_change = value

    @property
    def version(self) -> str:
        return f"{self._version.runtime_name}://{self._version.runtime_version}"

    @property
    def status(self) -> RuntimeStatus:
        return self._status

    def problem(self) -> str:
        threshold = _EVENTED_THRESHOLD if self._follows_events else _RELIST_THRESHOLD
        return self._state.problem(self._cache.relisted_at, threshold)

    async def load(self) -> None:
        try:
            self._version = await self._calls.check()
            self._cache.runtime_name = self._version.runtime_name
            await self._cache.relist()
            await self._ask_status()
        except RpcError as error:
            await self._calls.close()
            raise ContainerRuntimeError(str(error)) from error
        except ContainerRuntimeError:
            await self._calls.close()
            raise
        place = {"endpoint": self._calls.endpoint, "label": self._label}
        self._files.write(self._place.requests / PLACE, json.dumps(place).encode())

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._relist(), name=f"PLEG of {self._node_name}")
                group.create_task(self._look_after_runtime(), name=f"runtime of {self._node_name}")
                group.create_task(self._rotate_logs(), name=f"logs of {self._node_name}")
                group.create_task(self._collect(), name=f"garbage of {self._node_name}")
                if self._follows_events:
                    group.create_task(self._events(), name=f"events of {self._node_name}")
        finally:
            stops = [stop.task for stop in self._stops.values()]
            for task in stops:
                task.cancel()
            await asyncio.gather(*stops, return_exceptions=True)
            await self.close()

    async def close(self) -> None:
        """Ends the connection; containers go on."""
        await self._calls.close()

    async def _relist(self) -> None:
        """Lists pods again and again; a list that fails is tried again with the next one."""
        while True:
            seconds = _EVENTED_SECONDS if self._follows_events else _RELIST_SECONDS
            await self._pause(seconds)
            try:
                await self._cache.relist()
            except RpcError as error:
                self._list_failures.failed(f"node {self._node_name}: cannot list pods: {error}")
            else:
                self._list_failures.succeeded()

    async def _pause(self, seconds: float) -> None:
        waiting = asyncio.ensure_future(self._relist_now.wait())
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({waiting, sleeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            sleeping.cancel()
        self._relist_now.clear()

    async def _events(self) -> None:
        """Looks at pods with events; without a stream that holds, relists as often as without the gate."""
        for _ in range(_STREAMS):
            try:
                async for _event in self._calls.events():
                    self._relist_now.set()
            except RpcError as error:
                log.warning("node %s: no events of containers: %s", self._node_name, error)
            self._relist_now.set()
            await self._clock.sleep(_RETRY_SECONDS)
        self._follows_events = False
        self._relist_now.set()

    async def _look_after_runtime(self) -> None:
        while True:
            await self._clock.sleep(STATUS_SECONDS)
            try:
                await self._ask_status()
            except RpcError as error:
                text = f"node {self._node_name}: container runtime sanity check failed: {error}"
                self._status_failures.failed(text)
            else:
                self._status_failures.succeeded()

    async def _ask_status(self) -> None:
        """Raises RpcError."""
        answer = await self._calls.call("Status", messages.StatusRequest())
        self._state.noted(answer.status)
        self._status = runtime_status(answer)

    # -- reading

    def sandboxes(self) -> Sequence[Sandbox]:
        return self._cache.sandboxes()

    def sandbox(self, pod_uid: str) -> Sandbox | None:
        return self._cache.sandbox(pod_uid)

    # -- sandboxes

    async def run_pod_sandbox(self, config: PodSandboxConfig) -> Sandbox:
        if not config.host_users:
            raise ContainerRuntimeError(_NO_USER_NAMESPACES)
        directory = config.log_directory.absolute()
        directory.mkdir(parents=True, exist_ok=True)
        with self._cache.changing(config.uid):
            try:
                if (known := await self._found_again(config.uid)) is not None:
                    return known
                before = (await self._cache.listed(config.uid)).get(config.uid, Listed())
                for each in before.sandboxes:
                    await self._calls.call(
                        "StopPodSandbox", messages.StopPodSandboxRequest(pod_sandbox_id=each.id)
                    )
                request = requests.sandbox_request(config, self._label)
                if before.sandboxes:
                    request.metadata.attempt = before.sandboxes[0].metadata.attempt + 1
                made = await self._calls.call("RunPodSandbox", messages.RunPodSandboxRequest(config=request))
                self._requests.keep(request, made.pod_sandbox_id)
                await self._cache.inspect(config.uid)
            except RpcError as error:
                raise ContainerRuntimeError(str(error)) from error
        sandbox = self._cache.sandbox(config.uid)
        if sandbox is None:
            raise ContainerRuntimeError(f"sandbox {made.pod_sandbox_id} is gone")
        return sandbox

    async def _found_again(self, pod_uid: str) -> Sandbox | None:
        """The sandbox of a pod that has one, and could not be looked at before. Raises RpcError."""
        if self._cache.sandbox(pod_uid) is not None or not self._cache.is_unknown(pod_uid):
            return None
        await self._cache.inspect(pod_uid)
        sandbox = self._cache.sandbox(pod_uid)
        return sandbox if sandbox is not None and sandbox.ready else None

    async def stop_pod_sandbox(self, sandbox: Sandbox) -> None:
        with self._cache.changing(sandbox.pod_uid):
            try:
                listed = (await self._cache.listed(sandbox.pod_uid)).get(sandbox.pod_uid, Listed())
                for each in listed.sandboxes:
                    await self._calls.call(
                        "StopPodSandbox", messages.StopPodSandboxRequest(pod_sandbox_id=each.id)
                    )
                await self._cache.inspect(sandbox.pod_uid)
            except RpcError as error:
                raise ContainerRuntimeError(str(error)) from error
        sandbox.ready = False

    async def remove_pod_sandbox(self, pod_uid: str) -> None:
        with self._cache.changing(pod_uid):
            try:
                listed = (await self._cache.listed(pod_uid)).get(pod_uid, Listed())
                await remove_sandboxes(self._calls, [each.id for each in listed.sandboxes])
                await self._cache.inspect(pod_uid)
            except RpcError as error:
                raise ContainerRuntimeError(str(error)) from error
        self._requests.drop([*(each.id for each in listed.sandboxes), *(one.id for one in listed.containers)])
        for directory in sorted(self._place.logs.glob(f"*_{pod_uid}")):
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    # -- containers

    async def start_container(self, sandbox: Sandbox, config: ContainerConfig) -> Container:
        with self._cache.changing(sandbox.pod_uid):
            try:
                return await self._start(sandbox, config)
            except RpcError as error:
                raise ContainerRuntimeError(error.description) from error

    async def _start(self, sandbox: Sandbox, config: ContainerConfig) -> Container:
        """Raises RpcError, ContainerStartError and ContainerRuntimeError."""
        image = await self.images.image(config.image)
        if image is None:
            raise ContainerRuntimeError(f'failed to get image "{config.image}": not found')
        sandbox_request = self._sandbox_request(sandbox)
        attempt = self._next_attempt(sandbox, config.name)
        request = requests.container_request(
            *(config, sandbox_request, image.id, attempt),
            seccomp=self._place.seccomp,
            target=_target(sandbox, config),
        )
        self._logs_of(sandbox, config.name).mkdir(parents=True, exist_ok=True)
        made = await self._calls.call(
            "CreateContainer",
            messages.CreateContainerRequest(
                pod_sandbox_id=sandbox.id, config=request, sandbox_config=sandbox_request
            ),
        )
        self._requests.keep(request, made.container_id)
        failure: RpcError | None = None
        try:
            await self._calls.call(
                "StartContainer", messages.StartContainerRequest(container_id=made.container_id)
            )
        except RpcError as error:
            failure = error
        try:
            await self._cache.inspect(sandbox.pod_uid)
        except RpcError as error:
            if failure is None:  # it runs, whatever of it cannot be told now
                log.warning("node %s: cannot look at a container: %s", self._node_name, error)
                return self._cache.started(sandbox, made.container_id, request, image.reference)
        container = next((each for each in sandbox.containers if each.id == made.container_id), None)
        if container is None or (failure is not None and container.ends_at is None):
            text = failure.description if failure is not None else "container is gone"
            raise ContainerStartError(text) from failure
        return container

    def _sandbox_request(self, sandbox: Sandbox) -> messages.PodSandboxConfig:
        """The request that made a sandbox, or what is known of it if its file is lost."""
        request = self._requests.sandbox(sandbox.id)
        if not request.metadata.uid:
            metadata = (sandbox.name, sandbox.pod_uid, sandbox.namespace)
            config = PodSandboxConfig(
                *(metadata[1], metadata[2], metadata[0], sandbox.hostname),
                self._place.logs / f"{sandbox.namespace}_{sandbox.name}_{sandbox.pod_uid}",
            )
            request = requests.sandbox_request(config, self._label)
        return request

    def _next_attempt(self, sandbox: Sandbox, name: str) -> int:
        """One more than the runtime has had, or than the logs say if it has forgotten all."""
        last = self._cache.last_attempt(sandbox.pod_uid, name)
        if last is None:
            found = [_LOG_NAME.fullmatch(path.name) for path in self._logs_of(sandbox, name).glob("*.log*")]
            last = max((int(match[1]) for match in found if match is not None), default=-1)
        return last + 1

    def _logs_of(self, sandbox: Sandbox, name: str) -> Path:
        pod = f"{sandbox.namespace}_{sandbox.name}_{sandbox.pod_uid}"
        return self._place.logs.absolute() / pod / name

    async def remove_old_attempts(self, sandbox: Sandbox, name: str) -> None:
        """Removes attempts of a container but the newest and one before it. Raises RpcError."""
        with self._cache.changing(sandbox.pod_uid):
            listed = (await self._cache.listed(sandbox.pod_uid, name)).get(sandbox.pod_uid, Listed())
            old = _excess(listed.containers)
            for each in old:
                await self._calls.call(
                    "RemoveContainer", messages.RemoveContainerRequest(container_id=each.id)
                )
                self._requests.drop([each.id])
                path = self._logs_of(sandbox, name) / f"{each.metadata.attempt}.log"
                await asyncio.to_thread(log_rotation.remove, path)
            if old:
                await self._cache.inspect(sandbox.pod_uid)

    def stop_container(self, sandbox: Sandbox, container: Container, grace: float) -> None:
        deadline = self._clock.monotonic() + max(grace, 0.0)
        known = self._stops.get(container.id)
        if known is not None:
            if known.deadline <= deadline:
                return
            known.task.cancel()
        task = asyncio.create_task(self._stop(sandbox, container, deadline), name=f"end of {container.name}")
        self._stops[container.id] = _Stop(deadline, task)

    async def _stop(self, sandbox: Sandbox, container: Container, deadline: float) -> None:
        """Stops a container; while the runtime cannot be reached, again and again."""
        while container.ends_at is None:
            seconds = max(math.ceil(deadline - self._clock.monotonic()), 0)
            request = messages.StopContainerRequest(container_id=container.id, timeout=seconds)
            try:
                await self._calls.call("StopContainer", request, SECONDS + seconds)
                await self._cache.inspect(sandbox.pod_uid)
                break
            except RpcError as error:
                if error.code is grpc.StatusCode.NOT_FOUND:
                    break
                log.warning("node %s: cannot stop a container: %s", self._node_name, error)
            await self._clock.sleep(_RETRY_SECONDS)
        self._stops.pop(container.id, None)
        self.on_change(sandbox.pod_uid)

    async def update_resources(
        self,
        sandbox: Sandbox,
        container: Container,
        resources: ContainerResources,
        annotations: Mapping[str, str],
    ) -> None:
        """Annotations are the runtime's for good: CRI does not change them."""
        request = messages.UpdateContainerResourcesRequest(
            container_id=container.id, linux=requests.resources_request(resources)
        )
        try:
            await self._calls.call("UpdateContainerResources", request)
        except RpcError as error:
            raise ContainerRuntimeError(str(error)) from error

    # -- use

    async def measure(self) -> None:
        """Leaves the last measurement if the runtime cannot say."""
        wanted = messages.ContainerStatsFilter(label_selector={requests.NODE: self._label})
        try:
            answer = await self._calls.call(
                "ListContainerStats", messages.ListContainerStatsRequest(filter=wanted)
            )
        except RpcError as error:
            log.warning("node %s: no use of containers: %s", self._node_name, error)
            return
        self._use.noted(answer.stats)

    def stats(self, sandbox: Sandbox, container: Container, at: datetime | None = None) -> ContainerStats:
        return self._use.of(container.id)

    # -- logs

    def logs(self, sandbox: Sandbox, container: Container) -> Sequence[LogLine]:
        return log_reader.read(self._log(sandbox, container))

    def follow_logs(self, sandbox: Sandbox, container: Container) -> AsyncIterator[LogLine]:
        follower = log_reader.LogFollower(self._log(sandbox, container))
        return log_reader.followed(
            follower, lambda: container.ends_at is not None, lambda: self._clock.sleep(_POLL_SECONDS)
        )

    def _log(self, sandbox: Sandbox, container: Container) -> Path:
        known = container.log_path if isinstance(container, RemoteContainer) else ""
        return Path(known) if known else self._logs_of(sandbox, container.name) / f"{container.attempt}.log"

    async def reopen_log(self, sandbox: Sandbox, container: Container) -> None:
        request = messages.ReopenContainerLogRequest(container_id=container.id)
        try:
            await self._calls.call("ReopenContainerLog", request)
        except RpcError as error:
            raise ContainerRuntimeError(str(error)) from error

    async def _rotate_logs(self) -> None:
        while True:
            await self._clock.sleep(log_rotation.PERIOD_SECONDS)
            now = self._clock.now()
            for sandbox, container in [(each, one) for each in self.sandboxes() for one in each.running(now)]:
                try:
                    await self._rotate_log(sandbox, container)
                except (OSError, ContainerRuntimeError) as error:
                    log.warning("node %s: cannot rotate a log: %s", self._node_name, error)

    async def _rotate_log(self, sandbox: Sandbox, container: Container) -> None:
        """Raises OSError and ContainerRuntimeError."""
        path = self._log(sandbox, container)
        try:
            if not await asyncio.to_thread(log_rotation.is_too_large, path):
                return None
        except FileNotFoundError:  # a rotation was cut off
            return await self.reopen_log(sandbox, container)
        moved = await asyncio.to_thread(log_rotation.rotate, path, self._clock.now())
        try:
            await self.reopen_log(sandbox, container)
        except ContainerRuntimeError:
            await asyncio.to_thread(moved.rename, path)  # the runtime goes on in it
            raise

    # -- within containers

    async def exec_sync(
        self, sandbox: Sandbox, container: Container, command: Sequence[str], seconds: float
    ) -> CommandResult:
        limited = seconds < _FOREVER
        request = messages.ExecSyncRequest(
            container_id=container.id, cmd=command, timeout=max(int(seconds), 1) if limited else 0
        )
        try:
            answer = await self._calls.call("ExecSync", request, SECONDS + seconds if limited else None)
        except RpcError as error:
            if error.code is grpc.StatusCode.DEADLINE_EXCEEDED:
                raise CommandTimeoutError(error.description, error.go_code) from error
            raise ContainerRuntimeError(error.description, error.go_code) from error
        return CommandResult(answer.exit_code, answer.stdout, answer.stderr)

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
        request = messages.ExecRequest(
            container_id=container.id, cmd=command, stdin=stdin, stdout=True, stderr=not tty, tty=tty
        )
        url = await self._url("Exec", request)
        return await talk(url, streams, stdin=stdin, tty=tty)

    async def attach(
        self, sandbox: Sandbox, container: Container, streams: CommandStreams, *, stdin: bool
    ) -> None:
        tty = container.tty
        request = messages.AttachRequest(
            container_id=container.id, stdin=stdin, stdout=True, stderr=not tty, tty=tty
        )
        await talk(await self._url("Attach", request), streams, stdin=stdin, tty=tty)

    async def _url(self, verb: str, request: Any) -> str:
        """Raises ContainerRuntimeError."""
        try:
            return str((await self._calls.call(verb, request)).url)
        except RpcError as error:
            raise ContainerRuntimeError(error.description) from error

    async def dial(self, sandbox: Sandbox, port: int) -> Connection:
        if not sandbox.ip:
            raise OSError(errno.EHOSTUNREACH, "the pod has no address")
        return StreamConnection(*await asyncio.open_connection(sandbox.ip, port))

    async def port_forward(self, sandbox: Sandbox, port: int) -> Connection:
        request = messages.PortForwardRequest(pod_sandbox_id=sandbox.id, port=[port])
        try:
            url = (await self._calls.call("PortForward", request)).url
        except RpcError as error:
            raise OSError(errno.ECONNREFUSED, str(error)) from error
        return await forward(url, port)

    # -- garbage

    async def _collect(self) -> None:
        """Removes from time to time what no pod needs: old attempts of containers, sandboxes that another has
        replaced, once they have no containers, and files about what is gone."""
        while True:
            await self._clock.sleep(_COLLECTION_SECONDS)
            try:
                await self._collect_once()
            except (RpcError, OSError) as error:
                self._garbage_failures.failed(f"node {self._node_name}: cannot collect garbage: {error}")
            else:
                self._garbage_failures.succeeded()

    async def _collect_once(self) -> None:
        """Raises RpcError and OSError once it has removed what can be removed."""
        files = self._requests.kept()  # before the lists: what is made meanwhile is in neither
        listed = await self._cache.listed()
        sandboxes = {one.id for pod in listed.values() for one in pod.sandboxes}
        containers = {one.id for pod in listed.values() for one in pod.containers}
        self._requests.drop_files(files, sandboxes | containers)
        errors = []
        old = [(uid, name) for uid, pod in listed.items() for name in _names_with_excess(pod)]
        for uid, name in old:
            sandbox = self._cache.sandbox(uid)
            try:
                if sandbox is not None:
                    await self.remove_old_attempts(sandbox, name)
            except RpcError as error:
                errors.append(error)
        if old:
            listed = await self._cache.listed()
        dead = [identifier for pod in listed.values() for identifier in _replaced(pod)]
        try:
            await remove_sandboxes(self._calls, dead)
        except RpcError as error:
            errors.append(error)
        _raise(errors)


def _names_with_excess(pod: Listed) -> list[str]:
    """The names of containers with attempts that nobody needs."""
    names = sorted({each.metadata.name for each in pod.containers})
    return [
        name for name in names if _excess([each for each in pod.containers if each.metadata.name == name])
    ]


def _excess(attempts: Sequence[messages.Container]) -> list[messages.Container]:
    """The attempts of one container that nobody needs: neither the newest, nor the one before it."""
    ordered = sorted(attempts, key=lambda each: each.metadata.attempt)
    return [each for each in ordered[:-_KEPT_ATTEMPTS] if each.state != STATES.CONTAINER_RUNNING]


def _replaced(pod: Listed) -> list[str]:
    """The ids of sandboxes that another has replaced, and that have no containers."""
    used = {each.pod_sandbox_id for each in pod.containers}
    ready = messages.PodSandboxState.SANDBOX_READY
    return [each.id for each in pod.sandboxes[1:] if each.state != ready and each.id not in used]


def _target(sandbox: Sandbox, config: ContainerConfig) -> str:
    """The id of the container whose processes an ephemeral one sees. Raises ContainerRuntimeError."""
    if not config.target:
        return ""
    found = sandbox.latest(config.target)
    if found is None:
        raise ContainerRuntimeError(f"unable to find target container {config.target}")
    return found.id


async def remove_sandboxes(calls: RuntimeCalls, identifiers: Sequence[str]) -> None:
    """Stops and removes sandboxes with their containers: each that can be. Raises RpcError for the others."""
    errors = []
    for identifier in identifiers:
        try:
            await calls.call("StopPodSandbox", messages.StopPodSandboxRequest(pod_sandbox_id=identifier))
            await calls.call("RemovePodSandbox", messages.RemovePodSandboxRequest(pod_sandbox_id=identifier))
        except RpcError as error:
            errors.append(error)
    _raise(errors)


def _raise(errors: Sequence[RpcError]) -> None:
    """Raises RpcError, with all texts in the order in which they came, if there are errors."""
    if errors:
        texts = dict.fromkeys(error.description for error in errors)
        raise RpcError(errors[0].code, "; ".join(texts)) from errors[0]

"""The simulated runtime of one node: sandboxes and containers that are acted, and outlive the kubelet.

There are no processes. A container is a record of when it began and when it ends. So it goes on running
without a kubelet, and survives the kubelet's restart, upgrade and kill. What a container of a known command
(`commands.py`) does follows from its record: its end and output depend only on its start and the clock. One
whose command is not known runs until it is stopped, unless it is an init container, which ends with success.
The image's entry in the cluster file comes before both, and annotations (`acting.py`) before it. One file per
pod, `<directory>/<pod uid>.json`, holds the sandbox and its containers.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import orjson

from kubeskew.apimachinery.clock import Clock, Entropy, later
from kubeskew.kubelet.containers import acting
from kubeskew.kubelet.containers.acting import Behaviour
from kubeskew.kubelet.containers.event_log import STOPPED, ContainerEvents
from kubeskew.kubelet.containers.image_entries import ImageEntries, entry_for, fits
from kubeskew.kubelet.containers.runtime_service import (
    OWN_STATUS,
    CommandResult,
    CommandStreams,
    CommandTimeoutError,
    Connection,
    ContainerConfig,
    ContainerResources,
    ContainerRuntimeError,
    ContainerStats,
    Image,
    ImageError,
    LogLine,
    PodSandboxConfig,
)
from kubeskew.kubelet.containers.sandbox import (
    RUNTIME_VERSION,
    Container,
    Sandbox,
    full_image_name,
    made_up_reference,
    sandbox_from,
)
from kubeskew.kubelet.containers.simulated.commands import PAUSE, Effect, effect_of, variables_of
from kubeskew.kubelet.containers.simulated.ports import ActedConnection, Identity
from kubeskew.kubelet.files import UNJOURNALLED, StateFiles

_KILLED_EXIT_CODE = 137  # 128 + SIGKILL
_FIRST_HOST, _HOSTS = 2, 253  # of a node's addresses
_START_CORE_SECONDS = 2e-9  # a counter at 0 would count as unknown, also of one that uses nothing
_FOLLOWED_SECONDS = 600.0  # of a log at once
_KEPT_ATTEMPTS = 2  # the newest one and one dead before it (the kubelet's default garbage collection)
_UNKNOWN_IMAGE = (
    'rpc error: code = NotFound desc = failed to pull and unpack image "{name}": '
    'failed to resolve reference "{name}": {name}: not found'
)
_NOT_STARTED = (
    "failed to exec in container: failed to start exec: OCI runtime exec failed: exec failed: "
    'unable to start container process: exec: "{name}": {why}: unknown'
)


class SimulatedImages:
    """All images are there, or with `strict` those that have an entry; a pull takes time only on paper."""

    def __init__(self, entries: ImageEntries = (), *, strict: bool = False) -> None:
        self._entries = entries
        self._strict = strict

    async def images(self) -> Sequence[Image]:
        return ()

    async def image(self, name: str) -> Image | None:
        if self._strict and entry_for(self._entries, name) is None:
            return None
        full = full_image_name(name)
        digest = hashlib.sha256(name.encode()).digest()
        size = int.from_bytes(digest[1:5]) % 100_000_000 + 2_000_000
        reference = made_up_reference(full)
        seconds = (200 + digest[0] * 3) / 1000
        return Image(reference.rpartition("@")[2], reference, size, [full], seconds=seconds)

    async def pull_image(self, name: str) -> Image:
        image = await self.image(name)
        if image is None:
            raise ImageError("ErrImagePull", _UNKNOWN_IMAGE.format(name=full_image_name(name)))
        return image

    async def remove_image(self, name: str) -> None:
        """Leaves it: an image is there again as soon as somebody asks."""


class SimulatedRuntime:
    """The runtime of one node. Call `load` first.

    Changes to containers are on disk when a call returns. An empty sandbox, or that one was stopped, is not
    written: a kubelet that does not find it does the same again.
    """

    runs_programs = False
    is_remote = False
    version = RUNTIME_VERSION
    status = OWN_STATUS

    def __init__(
        self,
        directory: Path,
        node_name: str,
        clock: Clock,
        entropy: Entropy,
        files: StateFiles = UNJOURNALLED,
        entries: ImageEntries = (),
    ) -> None:
        self._entries = entries
        self._directory = directory
        self._node_name = node_name
        self._files = files
        self._clock = clock
        self._entropy = entropy
        # Two octets per node: addresses look right and are unique on the node. Nothing routes them.
        digest = hashlib.sha256(node_name.encode()).digest()
        self._network = f"10.{128 + digest[0] % 120}.{digest[1]}"
        self._last_host = -1  # the number of the last address that was given out
        self._sandboxes: dict[str, Sandbox] = {}
        self._events = ContainerEvents(directory, files)
        self._stopped = asyncio.Event()  # set, and replaced, when the end of a container changes
        self.on_change: Callable[[str], None] = lambda _pod_uid: None

    def problem(self) -> str:
        return ""

    async def load(self) -> None:
        if not self._directory.is_dir():
            return
        for path in sorted(self._directory.glob("*.json")):
            try:
                content = orjson.loads(self._files.read(path) or b"")
            except orjson.JSONDecodeError:  # a part is left after a crash of the machine
                self._files.remove(path)
                continue
            sandbox = sandbox_from(content)
            self._sandboxes[sandbox.pod_uid] = sandbox
        newest = max(self._sandboxes.values(), key=lambda sandbox: sandbox.created_at, default=None)
        if newest is not None:
            self._last_host = int(newest.ip.rpartition(".")[2]) - _FIRST_HOST

    async def run(self) -> None:
        """Does nothing: when containers end is in their records."""

    # -- reading

    def sandboxes(self) -> Sequence[Sandbox]:
        return [*self._sandboxes.values()]

    def sandbox(self, pod_uid: str) -> Sandbox | None:
        return self._sandboxes.get(pod_uid)

    # -- sandboxes

    async def run_pod_sandbox(self, config: PodSandboxConfig) -> Sandbox:
        sandbox = Sandbox(
            pod_uid=config.uid,
            namespace=config.namespace,
            name=config.name,
            id=self._identifier(),
            ip=self._address(),
            created_at=self._clock.now(),
            hostname=config.hostname,
        )
        self._sandboxes[sandbox.pod_uid] = sandbox
        return sandbox

    async def stop_pod_sandbox(self, sandbox: Sandbox) -> None:
        for container in sandbox.running(self._clock.now()):
            self._end(sandbox, container, 0.0, exit_code=_KILLED_EXIT_CODE)
        sandbox.ready = False

    async def remove_pod_sandbox(self, pod_uid: str) -> None:
        sandbox = self._sandboxes.pop(pod_uid, None)
        if sandbox is not None:
            self._files.remove(self._path(pod_uid))

    # -- containers

    async def start_container(self, sandbox: Sandbox, config: ContainerConfig) -> Container:
        now = self._clock.now()
        entry = entry_for(self._entries, config.image)
        behaviour = Behaviour.of(config.annotations, entry.behaviour if entry is not None else Behaviour())
        before = sandbox.latest(config.name)
        container = Container(
            id=config.id or self._identifier(),
            name=config.name,
            attempt=before.attempt + 1 if before is not None else 0,
            image=full_image_name(config.image),
            started_at=now,
            stops_after=behaviour.stops_after,
            env=dict(config.env),
            cdi_devices=[device.name for device in config.cdi_devices],
            argv=[*config.command, *config.args],
            directory=config.working_directory or "/",
            stdin=config.stdin,
            stdin_once=config.stdin_once,
            tty=config.tty,
            device_nodes=[
                {"path": each.container_path, "host_path": each.host_path, "permissions": each.permissions}
                for each in config.devices
            ],
            host_mounts=[
                {"path": each.container_path, "host_path": str(each.host_path), "read_only": each.read_only}
                for each in config.mounts
            ],
            annotations=dict(config.annotations),
            memory=int(config.annotations.get(acting.MEMORY, 0)),
            cores=float(config.annotations.get(acting.CORES, 0.0)),
            core_seconds=_START_CORE_SECONDS,
        )
        seconds, container.exit_code = _ending(
            self._effect(sandbox, container), behaviour, config.annotations
        )
        container.ends_at = None if seconds is None else later(now, seconds)
        sandbox.containers.append(container)
        oldest = container.attempt - _KEPT_ATTEMPTS + 1
        for old in [c for c in sandbox.containers if c.name == config.name and c.attempt < oldest]:
            sandbox.containers.remove(old)
        self._save(sandbox)
        self._events.started(sandbox, container, config.cdi_devices, now)
        return container

    def stop_container(self, sandbox: Sandbox, container: Container, grace: float) -> None:
        lives = container.stops_after
        if lives is None or lives > grace:
            self._end(sandbox, container, grace, exit_code=_KILLED_EXIT_CODE)
        else:
            self._end(sandbox, container, lives, exit_code=0)

    def _end(
        self, sandbox: Sandbox, container: Container, after: float, *, exit_code: int, what: str = STOPPED
    ) -> None:
        ends_at = self._clock.now() + timedelta(seconds=after)
        if container.ends_at is None or ends_at < container.ends_at:
            container.ends_at, container.exit_code = ends_at, exit_code
            self._save(sandbox)
            self._events.ended(what, sandbox, container, self._clock.now())
            self._stopped.set()
            self._stopped = asyncio.Event()

    async def update_resources(
        self,
        sandbox: Sandbox,
        container: Container,
        resources: ContainerResources,
        annotations: Mapping[str, str],
    ) -> None:
        cores, memory = float(annotations.get(acting.CORES, 0.0)), int(annotations.get(acting.MEMORY, 0))
        if (container.cores, container.memory) != (cores, memory):
            now = self._clock.now()
            container.core_seconds, container.metered_at = container.used(now), now
            container.cores, container.memory = cores, memory
            self._save(sandbox)

    async def measure(self) -> None:
        """Does nothing: use follows from the clock."""

    def stats(self, sandbox: Sandbox, container: Container, at: datetime | None = None) -> ContainerStats:
        """Times are cut to the millisecond, as pages show them: rates between two pages are exact."""
        now = at or self._clock.now()
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        resident = container.memory * 4 // 5
        return ContainerStats(
            container.used(now), container.memory, resident, written=24_576, cores=container.cores
        )

    # -- within containers

    def _effect(self, sandbox: Sandbox, container: Container) -> Effect | None:
        variables = variables_of(container.env, sandbox.hostname or sandbox.name, tty=container.tty)
        argv = container.argv or ([PAUSE] if fits(f"*/{PAUSE}", container.image) else [])
        return effect_of(argv, variables, container.directory)

    def logs(self, sandbox: Sandbox, container: Container) -> Sequence[LogLine]:
        return self._lines(sandbox, container, self._clock.now())

    def _lines(self, sandbox: Sandbox, container: Container, until: datetime) -> list[LogLine]:
        """The output up to a moment, or to the container's end."""
        effect = self._effect(sandbox, container)
        if effect is None:
            return []
        last = until if container.ends_at is None else min(until, container.ends_at)
        return [
            LogLine(
                later(container.started_at, output.seconds),
                output.stream,
                _shown(output.data, tty=container.tty),
            )
            for output in effect.written((last - container.started_at).total_seconds())
        ]

    def follow_logs(self, sandbox: Sandbox, container: Container) -> AsyncIterator[LogLine]:
        return self._follow(sandbox, container, self._clock.now())

    async def _follow(
        self, sandbox: Sandbox, container: Container, since: datetime
    ) -> AsyncIterator[LogLine]:
        while True:
            until = later(since, _FOLLOWED_SECONDS)
            for line in [line for line in self._lines(sandbox, container, until) if line.time > since]:
                if not await self._until(container, line.time):
                    return
                yield line
            if not await self._until(container, until):
                return
            since = until

    async def _until(self, container: Container, moment: datetime) -> bool:
        """Waits for a moment; False if the container ends before."""
        while (now := self._clock.now()) < moment:
            if not container.running(now):
                return False
            soonest = moment if container.ends_at is None else min(moment, container.ends_at)
            waiting = asyncio.ensure_future(self._stopped.wait())
            sleeping = asyncio.ensure_future(self._clock.sleep(max((soonest - now).total_seconds(), 0.001)))
            try:
                await asyncio.wait({waiting, sleeping}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
                sleeping.cancel()
        return container.ends_at is None or container.ends_at >= moment

    async def reopen_log(self, sandbox: Sandbox, container: Container) -> None:
        """Does nothing: output follows from the command, no file has it."""

    async def exec_sync(
        self, sandbox: Sandbox, container: Container, command: Sequence[str], seconds: float
    ) -> CommandResult:
        """A command that is not known succeeds: it is taken to be in the image."""
        effect = self._command(sandbox, container, command) or Effect()
        if effect.seconds is None or effect.seconds > seconds:
            await self._clock.sleep(seconds)
            raise CommandTimeoutError("context deadline exceeded")
        if effect.seconds:
            await self._clock.sleep(effect.seconds)
        return CommandResult(effect.exit_code, _joined(effect, "stdout"), _joined(effect, "stderr"))

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
        effect = self._command(sandbox, container, command)
        if effect is None:
            name = command[0] if command else ""
            stat = f"stat {name}: no such file or directory"
            why = stat if "/" in name else "executable file not found in $PATH"
            raise ContainerRuntimeError(_NOT_STARTED.format(name=name, why=why))
        passed = 0.0
        for output in effect.lines:  # of a loop the first round
            if output.seconds > passed:
                await self._clock.sleep(output.seconds - passed)
                passed = output.seconds
            data = _shown(output.data, tty=tty)
            await (streams.write_stderr if output.stream == "stderr" else streams.write_stdout)(data)
        if effect.seconds is None:
            await self._until_end(container)
            return _KILLED_EXIT_CODE
        if effect.seconds > passed:
            await self._clock.sleep(effect.seconds - passed)
        return effect.exit_code

    def _command(self, sandbox: Sandbox, container: Container, command: Sequence[str]) -> Effect | None:
        variables = variables_of(container.env, sandbox.hostname or sandbox.name)
        return effect_of(command, variables, container.directory)

    async def attach(
        self,
        sandbox: Sandbox,
        container: Container,
        streams: CommandStreams,
        *,
        stdin: bool,
    ) -> None:
        async for line in self.follow_logs(sandbox, container):
            await (streams.write_stderr if line.stream == "stderr" else streams.write_stdout)(line.data)

    async def _until_end(self, container: Container) -> None:
        while await self._until(container, later(self._clock.now(), 3600.0)):
            pass

    async def dial(self, sandbox: Sandbox, port: int) -> Connection:
        """A port answers if a running container declares it, or if none is declared."""
        running = sandbox.running(self._clock.now())
        declared = {
            int(each["containerPort"])
            for container in running
            for each in json.loads(container.annotations.get(acting.PORTS) or "[]")
        }
        if not running or (declared and port not in declared):
            raise ConnectionRefusedError("connection refused")
        return ActedConnection(Identity(sandbox.name, sandbox.namespace, self._node_name))

    async def port_forward(self, sandbox: Sandbox, port: int) -> Connection:
        return await self.dial(sandbox, port)

    # -- state

    def _path(self, pod_uid: str) -> Path:
        return self._directory / f"{pod_uid}.json"

    def _save(self, sandbox: Sandbox) -> None:
        self._files.write(self._path(sandbox.pod_uid), orjson.dumps(sandbox, option=orjson.OPT_INDENT_2))

    def _identifier(self) -> str:
        return (self._entropy.uid() + self._entropy.uid()).replace("-", "")

    def _address(self) -> str:
        """The next address after the last one, as the CNI plugin host-local gives them out.

        So one that a pod has just left is not another's while the API server has not heard of its end.
        """
        used = {sandbox.ip for sandbox in self._sandboxes.values() if sandbox.ready}
        turn = [(self._last_host + step) % _HOSTS for step in range(1, _HOSTS + 1)]
        # Past 253 pods addresses repeat: nothing routes them.
        host = next((host for host in turn if self._address_of(host) not in used), turn[0])
        self._last_host = host
        return self._address_of(host)

    def _address_of(self, host: int) -> str:
        return f"{self._network}.{_FIRST_HOST + host}"


def _ending(
    effect: Effect | None, behaviour: Behaviour, annotations: Mapping[str, str]
) -> tuple[float | None, int]:
    """Seconds until the end (None: until stopped), and the exit code."""
    if effect is None:
        ends = acting.KIND in annotations or behaviour.exit_code is not None
        effect = Effect(seconds=0.0 if ends else None)
    seconds = effect.seconds if behaviour.runs_for is None else behaviour.runs_for
    if behaviour.exit_code is not None:
        return seconds, behaviour.exit_code
    return seconds, effect.exit_code if behaviour.runs_for is None else 0


def _joined(effect: Effect, stream: str) -> bytes:
    return b"".join(output.data for output in effect.lines if output.stream == stream)


def _shown(data: bytes, *, tty: bool) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") if tty else data

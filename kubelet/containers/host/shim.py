"""The process that starts the containers of one node and stays their parent while kubelets come and go.

It is the first process of the node's PID namespace: all containers of the node end with it. A kubelet speaks
to it through a Unix socket (`shim_client.py`). It keeps the ends of containers in files, and writes their
logs (`container_streams.py`).

Source: containerd's runtime v2 shims (core/runtime/v2/README.md), whose part it takes.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.process.descriptor_messages import MessageConnection
from kubeskew.kubelet.containers.host import (
    container_init,
    disk_guard,
    plain_root,
    root_file_system,
    syscalls,
)
from kubeskew.kubelet.containers.host.cgroups import Cgroups, Limits
from kubeskew.kubelet.containers.host.container_streams import ContainerStreams
from kubeskew.kubelet.containers.host.log_writer import LogWriter
from kubeskew.kubelet.containers.host.shim_record import EXITS, MARK, process_ids

_READ_BYTES = 65_536
_DRAIN_SECONDS = 1.0
_REMOVAL_TRIES = 50
_IDLE_SECONDS = 1.0  # between two looks whether a container runs


@dataclass(frozen=True, slots=True)
class ShimOptions:
    """The shim's world."""

    directory: Path
    plain: bool = False  # no namespaces
    user_namespace: str = ""  # a path; empty: one of its own, where it is needed
    cgroup: str = ""  # the name of the node's cgroups; empty: none
    overlay: bool = True  # where it can be mounted; else images are copied for each container


@dataclass(slots=True)
class _Sandbox:
    namespaces: dict[str, int]
    host_pid: bool
    reaper: int = 0


@dataclass(slots=True, eq=False)
class _ShimContainer:
    id: str
    sandbox: str
    streams: ContainerStreams
    spec: dict[str, Any]
    pid: int = 0
    exit_status: int | None = None
    stdin_once: bool = False
    kill_timer: asyncio.TimerHandle | None = None
    ended_at: str = ""


class _RequestError(Exception):
    def __init__(self, message: str, kind: str = "create") -> None:
        super().__init__(message)
        self.kind = kind


class Shim:
    """Starts, follows and ends the containers of one node."""

    def __init__(
        self, options: ShimOptions, clock: Clock, groups: Cgroups, *, rootless: bool, own_pid: bool
    ) -> None:
        self._directory = options.directory
        self._plain = options.plain
        self._wants_overlay = options.overlay and not options.plain
        self._rootless = rootless
        self._own_pid = own_pid
        self._clock = clock
        self._cgroups = groups
        self._overlay = False
        self._sandboxes: dict[str, _Sandbox] = {}
        self._containers: dict[str, _ShimContainer] = {}
        self._by_pid: dict[int, Callable[[int], None]] = {}
        self._unclaimed: dict[int, int] = {}  # of processes that ended before their start was reported
        self._starting = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self._connections: dict[MessageConnection, None] = {}

    async def run(self, listener: socket.socket, ready: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._overlay = self._wants_overlay and self._can_overlay()
        loop.add_signal_handler(signal.SIGCHLD, self._reap)
        loop.add_signal_handler(signal.SIGTERM, self._ended.set)
        listener.setblocking(False)
        loop.add_reader(listener.fileno(), self._accept, listener)
        ready()
        guard = asyncio.create_task(self._guard_disk())
        await self._ended.wait()
        guard.cancel()
        for container in self._containers.values():
            self._kill_all(container)

    async def _guard_disk(self) -> None:
        guard = disk_guard.DiskGuard(
            lambda: disk_guard.free_bytes(self._directory),
            lambda: {name: disk_guard.written_by(one.pid) for name, one in self._containers.items()},
            lambda name: self._kill_all(self._containers[name]),
        )
        while True:
            await self._clock.sleep(guard.look() if self._containers else _IDLE_SECONDS)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            accepted, _address = listener.accept()
            connection = MessageConnection(
                accepted,
                lambda body, files: self._begin(self._serve(connection, body, files)),
                lambda: self._connections.pop(connection, None),
            )
            self._connections[connection] = None

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: MessageConnection, body: dict[str, Any], files: list[int]) -> None:
        passed: list[int] = []
        try:
            method = getattr(self, f"do_{body['method']}", None)
            if method is None:
                raise _RequestError(f"unknown method {body['method']}")
            answer = {"ok": await method(body, files, passed)}
        except _RequestError as error:
            answer = {"error": str(error), "kind": error.kind}
        except Exception as error:  # whoever asked gets it; the containers go on
            answer = {"error": str(error) or repr(error), "kind": "create"}
        finally:
            for fd in files:
                with contextlib.suppress(OSError):
                    os.close(fd)
        if body.get("id") is not None:
            with contextlib.suppress(ConnectionError):
                connection.send({"id": body["id"], **answer}, passed)

    def _emit(self, event: dict[str, Any]) -> None:
        for connection in [*self._connections]:
            with contextlib.suppress(ConnectionError):
                connection.send(event)

    # -- requests

    async def do_hello(self, _body: dict[str, Any], _files: list[int], _passed: list[int]) -> dict[str, Any]:
        return {
            "sandboxes": sorted(self._sandboxes),
            "containers": {
                container.id: container.pid
                for container in self._containers.values()
                if not container.ended_at
            },
            "cgroups": {name: str(path) for name, path in self._cgroups.directories.items()},
            "overlay": self._overlay,
            "rootless": self._rootless,
            "own_pid": self._own_pid,
            "plain": self._plain,
        }

    async def do_sandbox(self, body: dict[str, Any], files: list[int], _passed: list[int]) -> dict[str, Any]:
        """Makes the namespaces of a pod; a file is the network namespace that it is to have."""
        if self._plain:
            self._sandboxes[body["sandbox"]] = _Sandbox({}, host_pid=True)
            return {}
        here, there = socket.socketpair()
        here.setblocking(False)
        network = files[0] if files else None

        body["shares_pid"] = body["shares_pid"] and self._own_pid

        def child(status: int) -> NoReturn:
            container_init.make_sandbox(body, network, status, there)

        try:
            reaper = await self._spawn(child)
            kinds, fds, _flags, _address = socket.recv_fds(here, 64, 8)
        except BlockingIOError as error:
            raise _RequestError("the sandbox ended") from error
        finally:
            here.close()
            there.close()
        namespaces = dict(zip(kinds.decode().split(), fds, strict=True))
        for fd in namespaces.values():
            os.set_inheritable(fd, False)
        self._sandboxes[body["sandbox"]] = _Sandbox(namespaces, body["host_pid"], max(reaper, 0))
        return {}

    async def do_remove_sandbox(
        self, body: dict[str, Any], _files: list[int], _passed: list[int]
    ) -> dict[str, Any]:
        """Ends what runs in it; returns once it has ended."""
        for container in [*self._containers.values()]:
            if container.sandbox == body["sandbox"]:
                self._kill_all(container)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(10):
                        await container.streams.drained.wait()
        sandbox = self._sandboxes.pop(body["sandbox"], None)
        if sandbox is not None:
            for fd in sandbox.namespaces.values():
                os.close(fd)
            if sandbox.reaper:
                _kill(sandbox.reaper, signal.SIGKILL)
        return {}

    async def do_start(self, body: dict[str, Any], _files: list[int], _passed: list[int]) -> dict[str, Any]:
        sandbox = self._sandbox(body)
        spec = body["spec"]
        spec |= {
            "plain": self._plain,
            "rootless": self._rootless,
            "overlay": self._overlay,
            "own_pid": self._own_pid and not sandbox.host_pid and "pid" not in sandbox.namespaces,
            "cgroups": self._cgroups.create(body["container"], Limits(**body["limits"])),
            "cgroup_mounts": self._cgroups.mounts(body["container"]),
        }
        if self._plain:
            spec["env"][MARK] = body["container"]
        if "pids" in self._cgroups.directories:
            spec["processes"] = 0  # the cgroup's limit does
        log = LogWriter(Path(body["log"]), self._clock, body["log_bytes"])
        streams = ContainerStreams(log, tty=spec["tty"])
        container = _ShimContainer(
            body["container"], body["sandbox"], streams, spec, stdin_once=body["stdin_once"]
        )
        inner = streams.open(stdin=body["stdin"])
        namespaces = sandbox.namespaces

        def child(status: int) -> NoReturn:
            container_init.start(spec, namespaces, inner, status)

        try:
            pid = await self._spawn(child)
        except BaseException:
            streams.end()
            self._remove_cgroup(container.id)
            raise
        finally:
            for fd in inner:
                os.close(fd)
        streams.begin()
        container.pid = pid
        self._containers[container.id] = container
        self._claim(pid, lambda status: self._container_ended(container, status))
        if self._sandboxes.get(body["sandbox"]) is not sandbox:  # it was removed meanwhile
            self._kill_all(container)
            self._sandbox(body)
        return {"pid": pid}

    async def do_stop(self, body: dict[str, Any], _files: list[int], _passed: list[int]) -> dict[str, Any]:
        container = self._containers.get(body["container"])
        if container is None or container.exit_status is not None:
            return {}
        _kill(container.pid, body["signal"])
        deadline = asyncio.get_running_loop().time() + body["grace"]
        if container.kill_timer is not None:
            deadline = min(deadline, container.kill_timer.when())
            container.kill_timer.cancel()
        container.kill_timer = asyncio.get_running_loop().call_at(deadline, self._kill_all, container)
        return {}

    async def do_exec(self, body: dict[str, Any], files: list[int], _passed: list[int]) -> dict[str, Any]:
        container = self._running(body)
        own: dict[str, Any] = {**container.spec, "argv": body["argv"], "tty": body["tty"]}
        if self._plain:
            own["argv"] = plain_root.rewritten(own, body["argv"])
        namespaces = {} if self._plain else _open_namespaces(container.pid, own_user=own["nested"])

        def child(status: int) -> NoReturn:
            container_init.enter(own, namespaces, files, status)

        try:
            pid = await self._spawn(child)
        finally:
            for fd in namespaces.values():
                os.close(fd)

        def ended(status: int) -> None:
            event = {"event": "exec_exit", "exec": body["exec"], "code": _code(status)}
            asyncio.get_running_loop().call_soon(self._emit, event)  # after the answer

        self._claim(pid, ended)
        return {"pid": pid}

    async def do_kill_process(
        self, body: dict[str, Any], _files: list[int], _passed: list[int]
    ) -> dict[str, Any]:
        if body["pid"] in self._by_pid:
            _kill(body["pid"], signal.SIGKILL)
        return {}

    async def do_attach(self, body: dict[str, Any], files: list[int], passed: list[int]) -> dict[str, Any]:
        """Adds pipes that get the output from now on; passes the standard input on."""
        container = self._running(body)
        passed += container.streams.attach(files, stdin=body["stdin"])
        return {"stdin": bool(passed)}

    async def do_detach(self, body: dict[str, Any], _files: list[int], _passed: list[int]) -> dict[str, Any]:
        """An attached client has ended its standard input."""
        container = self._containers.get(body["container"])
        if container is not None and container.stdin_once:
            container.streams.end_input()
        return {}

    async def do_reopen_log(
        self, body: dict[str, Any], _files: list[int], _passed: list[int]
    ) -> dict[str, Any]:
        """Goes on in a new file; whoever asks has renamed the one so far."""
        self._running(body).streams.log.reopen()
        return {}

    async def do_dial(self, body: dict[str, Any], files: list[int], _passed: list[int]) -> dict[str, Any]:
        namespace = self._sandbox(body).namespaces.get("net")
        with socket.socket(fileno=files.pop()) as answer:
            if os.fork() == 0:
                try:
                    container_init.dial(namespace, body["port"], answer)
                finally:
                    os._exit(1)
        return {}

    async def do_remove_layer(
        self, body: dict[str, Any], _files: list[int], _passed: list[int]
    ) -> dict[str, Any]:
        """Removes the files of a container that has ended."""
        if os.fork() == 0:
            shutil.rmtree(body["path"], ignore_errors=True)
            os._exit(0)
        return {}

    async def do_shutdown(
        self, _body: dict[str, Any], _files: list[int], _passed: list[int]
    ) -> dict[str, Any]:
        asyncio.get_running_loop().call_later(0.01, self._ended.set)
        return {}

    # -- processes

    def _sandbox(self, body: dict[str, Any]) -> _Sandbox:
        sandbox = self._sandboxes.get(body["sandbox"])
        if sandbox is None:
            raise _RequestError(f'failed to find sandbox id "{body["sandbox"]}": not found')
        return sandbox

    def _running(self, body: dict[str, Any]) -> _ShimContainer:
        container = self._containers.get(body["container"])
        if container is None or container.exit_status is not None:
            raise _RequestError(f'container "{body["container"]}" is not running')
        return container

    async def _spawn(self, child: Callable[[int], NoReturn]) -> int:
        """Forks; returns the PID that the child reports, once its program runs. Raises _RequestError."""
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        self._starting += 1
        try:
            if os.fork() == 0:
                try:
                    child(writing)
                finally:
                    os._exit(1)
            os.close(writing)
            report = await _read_all(reading)
        finally:
            os.close(reading)
            self._starting -= 1
            if not self._starting:
                asyncio.get_running_loop().call_soon(self._unclaimed.clear)
        answer: dict[str, Any] = {}
        for line in report.splitlines():
            answer |= json.loads(line)
        if "error" in answer:
            raise _RequestError(answer["error"], answer["kind"])
        if "pid" not in answer:
            raise _RequestError("the process that starts containers was killed")
        return int(answer["pid"])

    def _claim(self, pid: int, ended: Callable[[int], None]) -> None:
        self._by_pid[pid] = ended
        if pid in self._unclaimed:
            self._process_ended(pid, self._unclaimed.pop(pid))

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._process_ended(pid, status)

    def _process_ended(self, pid: int, status: int) -> None:
        ended = self._by_pid.pop(pid, None)
        if ended is not None:
            ended(status)
        elif self._starting:
            self._unclaimed[pid] = status

    def _container_ended(self, container: _ShimContainer, status: int) -> None:
        container.exit_status = status
        now = self._clock.now().isoformat()
        if container.kill_timer is not None:
            container.kill_timer.cancel()
        if not container.spec["own_pid"]:
            self._kill_all(container)
        self._begin(self._finish(container, now))

    async def _finish(self, container: _ShimContainer, ended_at: str) -> None:
        """Keeps the end of a container once its output is read."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                await container.streams.drained.wait()
        container.streams.end()
        code = _code(container.exit_status or 0)
        killed = self._cgroups.out_of_memory_kills(container.id)  # also a child, as containerd has it
        end = {"code": code, "time": ended_at, "reason": "OOMKilled" if killed else ""}
        container.ended_at = ended_at
        path = self._directory / EXITS / f"{container.id}.json"
        with contextlib.suppress(OSError):
            temporary = path.with_suffix(".tmp")
            temporary.write_text(json.dumps(end))
            temporary.replace(path)
        self._containers.pop(container.id, None)
        self._emit({"event": "exit", "container": container.id, **end})
        self._remove_cgroup(container.id)

    def _remove_cgroup(self, name: str, tries: int = _REMOVAL_TRIES) -> None:
        if not self._cgroups.remove(name) and tries:
            asyncio.get_running_loop().call_later(0.1, self._remove_cgroup, name, tries - 1)

    def _kill_all(self, container: _ShimContainer) -> None:
        """Kills the container's first process, and what is left of it where no PID namespace ends that."""
        if container.exit_status is None:
            _kill(container.pid, signal.SIGKILL)
        if container.spec["own_pid"]:
            return
        for _round in range(10):
            left = [pid for pid in self._processes_of(container) if pid != container.pid]
            if not left:
                return
            for pid in left:
                _kill(pid, signal.SIGKILL)

    def _processes_of(self, container: _ShimContainer) -> list[int]:
        if self._cgroups.directories:
            return self._cgroups.processes(container.id)
        if self._plain:
            mark = f"{MARK}={container.id}".encode()
            return [pid for pid in process_ids() if mark in _environment(pid)]
        layer = f"upperdir={container.spec['layer']}/" if self._overlay else f"{container.spec['layer']}/root"
        return [pid for pid in process_ids() if layer in _mounts(pid)]

    # -- abilities

    def _can_overlay(self) -> bool:
        """Tries whether a writable layer can be mounted over an image here."""
        tried = self._directory / "overlay-tried"
        child = os.fork()
        if child == 0:
            try:
                syscalls.unshare(syscalls.CLONE_NEWNS)
                syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_SLAVE)
                (tried / "lower").mkdir(parents=True, exist_ok=True)
                spec = {
                    "layer": str(tried),
                    "lower": str(tried / "lower"),
                    "overlay": True,
                    "rootless": self._rootless,
                }
                root_file_system.mount_root(spec)
                (tried / "root" / "file").touch()
            except OSError:
                os._exit(1)
            os._exit(0)
        _pid, status = os.waitpid(child, 0)
        shutil.rmtree(tried, ignore_errors=True)
        return status == 0


# -- small things of the system


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _code(status: int) -> int:
    """The exit code that CRI reports."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _open_namespaces(pid: int, *, own_user: bool) -> dict[str, int]:
    kinds = ["net", "uts", "ipc", "mnt", "pid", *(["user"] if own_user else [])]
    return {
        kind: os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
        for kind in kinds
        if Path(f"/proc/{pid}/ns/{kind}").stat().st_ino != Path(f"/proc/self/ns/{kind}").stat().st_ino
    }


async def _read_all(fd: int) -> bytes:
    """Reads to the end without holding up others."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    content = bytearray()

    def readable() -> None:
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return
        content.extend(data)
        if not data and not ended.done():
            loop.remove_reader(fd)
            ended.set_result(None)

    loop.add_reader(fd, readable)
    try:
        await ended
    finally:
        loop.remove_reader(fd)
    return bytes(content)


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _mounts(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/mountinfo").read_text()
    except OSError:
        return ""

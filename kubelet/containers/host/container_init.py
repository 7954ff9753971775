"""Runs in children of a node's shim: from the fork to the execution of a container's program.

A child that fails writes why on its status pipe, as a line of JSON; the pipe ends without one once the
program is executed. The texts are runc's.

Source: runc's libcontainer/init_linux.go and standard_init_linux.go; Go's os/exec.LookPath.
"""

import contextlib
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import stat
import struct
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from kubeskew.kubelet.containers.host import plain_root, root_file_system, syscalls
from kubeskew.kubelet.containers.host.root_file_system import SetupError
from kubeskew.kubelet.containers.host.syscalls import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
)

_UNLOCK_TERMINAL = 0x40045431  # TIOCSPTLCK
_OTHER_SIDE = 0x5441  # TIOCGPTPEER
_LAST_CAPABILITY = 40
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_DIAL_SECONDS = 10
_NOT_EXECUTED_CODE = 255


class _StartError(Exception):
    """A program cannot be executed."""


def start(spec: dict[str, Any], namespaces: dict[str, int], stdio: Sequence[int], status: int) -> NoReturn:
    """The child of the shim that starts a container; its own child is the container's first process.

    `namespaces` holds those to join (net, uts, ipc, pid). `stdio` has three files, or the socket to pass the
    container's terminal on.
    """
    with _Reported(status):
        _keep_only([status, *stdio, *namespaces.values()])
        _join_cgroups(spec["cgroups"])
        if not spec["plain"]:
            for kind in ("net", "uts", "ipc"):
                if kind in namespaces:
                    syscalls.setns(namespaces[kind])
            if "pid" in namespaces:
                syscalls.setns(namespaces["pid"], CLONE_NEWPID)
            elif spec["own_pid"]:
                syscalls.unshare(CLONE_NEWPID)
        _fork_once(status)
        _as_session_leader()
        if not spec["plain"]:
            syscalls.unshare(CLONE_NEWNS)
            root_file_system.build(spec)
        else:
            plain_root.build(spec)
        terminal = _Terminal(stdio[0]) if spec["tty"] else None
        if terminal is not None and not spec["plain"]:
            terminal.bind_console()
        _become(spec)
        _execute(spec, stdio if terminal is None else terminal.sides(), status)
    os._exit(1)


def enter(spec: dict[str, Any], namespaces: dict[str, int], stdio: Sequence[int], status: int) -> NoReturn:
    """The child of the shim that starts a command in a running container."""
    with _Reported(status):
        _keep_only([status, *stdio, *namespaces.values()])
        _join_cgroups(spec["cgroups"])
        for kind in ("net", "uts", "ipc", "mnt"):
            if kind in namespaces:
                syscalls.setns(namespaces[kind])
        if "pid" in namespaces:
            syscalls.setns(namespaces["pid"], CLONE_NEWPID)
        _fork_once(status)
        _as_session_leader()
        terminal = _Terminal(stdio[0]) if spec["tty"] else None
        if "user" in namespaces:
            syscalls.setns(namespaces["user"], CLONE_NEWUSER)
        _become(spec, entered="user" in namespaces)
        _execute(spec, stdio if terminal is None else terminal.sides(), status)
    os._exit(1)


def make_sandbox(spec: dict[str, Any], network: int | None, status: int, answer: socket.socket) -> NoReturn:
    """The child of the shim that makes a pod's namespaces; passes them on as files: uts, ipc, net, pid."""
    with _Reported(status):
        _keep_only([status, answer.fileno(), *([] if network is None else [network])])
        has_network = network is not None or spec["own_network"]
        if network is not None:
            syscalls.setns(network)
        flags = CLONE_NEWUTS | (CLONE_NEWNET if network is None and has_network else 0)
        syscalls.unshare(flags | (0 if spec["host_ipc"] else CLONE_NEWIPC))
        socket.sethostname(spec["hostname"][:64])
        if has_network:
            _prepare_network(own=network is None)
        for name, value in sorted(spec["sysctls"].items()):
            _set_sysctl(name, value)
        reaper = -1
        if spec["shares_pid"]:
            syscalls.unshare(CLONE_NEWPID)
            reaper = os.fork()
            if reaper == 0:
                _reap_for_ever([])
        _write(status, {"pid": reaper})
        kinds = ["uts", *(["net"] if has_network else []), *([] if spec["host_ipc"] else ["ipc"])]
        paths = {kind: f"/proc/self/ns/{kind}" for kind in kinds}
        if reaper > 0:
            paths["pid"] = f"/proc/{reaper}/ns/pid"
        fds = [os.open(path, os.O_RDONLY) for path in paths.values()]
        socket.send_fds(answer, [" ".join(paths).encode() or b" "], fds)
        os._exit(0)
    os._exit(1)


def dial(namespace: int | None, port: int, answer: socket.socket) -> NoReturn:
    """The child of the shim that connects to a port of a pod; passes the connected socket on."""
    _keep_only([answer.fileno(), *([] if namespace is None else [namespace])])
    try:
        if namespace is not None:
            syscalls.setns(namespace)
        connected = _connect(port)
        socket.send_fds(answer, [b"connected"], [connected.fileno()])
    except OSError as error:
        answer.send(json.dumps({"errno": error.errno or errno.ECONNREFUSED}).encode())
    os._exit(0)


def _connect(port: int) -> socket.socket:
    try:
        return socket.create_connection(("127.0.0.1", port), _DIAL_SECONDS)
    except ConnectionRefusedError:
        with contextlib.suppress(OSError):
            return socket.create_connection(("::1", port), _DIAL_SECONDS)
        raise


# -- steps


class _Reported:
    """Writes an exception on the status pipe and ends the process."""

    def __init__(self, status: int) -> None:
        self._status = status

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None:
            kind = "start" if isinstance(error, _StartError | SetupError) else "create"
            text = f"error during container init: {error}" if isinstance(error, SetupError) else str(error)
            _write(self._status, {"error": text, "kind": kind})
            os._exit(1)


def _write(status: int, message: dict[str, Any]) -> None:
    os.write(status, json.dumps(message).encode() + b"\n")


def _keep_only(kept: Sequence[int]) -> None:
    """Closes the shim's other files, so that no pipe of another container stays open here."""
    first = 3
    for fd in sorted(set(kept)):
        os.closerange(first, fd)
        first = max(first, fd + 1)
    os.closerange(first, 65536 if first < 65536 else first)
    for number in _RESTORED:
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _join_cgroups(files: Sequence[str]) -> None:
    for file in files:
        syscalls.write_text(file, "0")


def _fork_once(status: int) -> None:
    """Goes on in a child, in the PID namespace that was chosen; the parent writes its PID and ends."""
    child = os.fork()
    if child:
        _write(status, {"pid": child})
        os._exit(0)


def _as_session_leader() -> None:
    os.setsid()
    os.umask(0o022)


def _prepare_network(*, own: bool) -> None:
    if own:
        syscalls.raise_loopback()
    # As containerd 2 does by enable_unprivileged_ports and enable_unprivileged_icmp.
    for name, value in (("ip_unprivileged_port_start", "0"), ("ping_group_range", "0 2147483647")):
        with contextlib.suppress(OSError):
            syscalls.write_text(f"/proc/sys/net/ipv4/{name}", value)


def _set_sysctl(name: str, value: str) -> None:
    path = "/proc/sys/" + (name if "/" in name.partition(".")[0] else name.replace(".", "/"))
    try:
        syscalls.write_text(path, value)
    except OSError as error:
        text = f"open {path}: {os.strerror(error.errno or 0).lower()}"
        raise SetupError(text) from error


def _reap_for_ever(kept: Sequence[int]) -> NoReturn:
    """The first process of a PID namespace that a pod's containers share: waits for orphans."""
    _keep_only(kept)
    os.closerange(0, 3)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    while True:
        with contextlib.suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)
        signal.sigtimedwait({signal.SIGCHLD}, 1)


class _Terminal:
    """A terminal of the container's own devpts; its outer side goes to whoever asked."""

    def __init__(self, answer: int) -> None:
        try:
            outer = os.open("/dev/pts/ptmx", os.O_RDWR | os.O_NOCTTY)
        except OSError:  # the machine's own terminals
            outer = os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
        fcntl.ioctl(outer, _UNLOCK_TERMINAL, struct.pack("i", 0))
        self.inner = fcntl.ioctl(outer, _OTHER_SIDE, os.O_RDWR | os.O_NOCTTY)
        with socket.socket(fileno=os.dup(answer)) as connection:
            socket.send_fds(connection, [b"terminal"], [outer])
        os.close(outer)

    def bind_console(self) -> None:
        with contextlib.suppress(OSError):
            os.close(os.open("/dev/console", os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o666))
            syscalls.mount(os.ttyname(self.inner), "/dev/console", "", syscalls.MS_BIND)

    def sides(self) -> Sequence[int]:
        fcntl.ioctl(self.inner, termios.TIOCSCTTY, 0)
        return [self.inner] * 3


def _become(spec: dict[str, Any], *, entered: bool = False) -> None:
    """Takes the container's limits, user and capabilities."""
    with contextlib.suppress(OSError):
        syscalls.write_text("/proc/self/oom_score_adj", str(spec["oom_score"]))
    uid, gid = spec["uid"], spec["gid"]
    if spec["plain"]:
        _limit(spec)
        if spec["no_new_privileges"]:
            syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
        return
    if spec["nested"] and not entered:
        syscalls.unshare(CLONE_NEWUSER)
        syscalls.write_text("/proc/self/setgroups", "deny")
        syscalls.write_text("/proc/self/uid_map", f"{uid} {0} 1")
        syscalls.write_text("/proc/self/gid_map", f"{gid} {0} 1")
    _limit(spec)
    _drop_bounding_capabilities(spec["capabilities"])
    if not spec["nested"]:
        if not spec["rootless"]:
            os.setgroups(spec["groups"])
        _change_user(uid, gid)
    if uid == 0:
        syscalls.set_capabilities(spec["capabilities"] & _present_capabilities())
    if spec["no_new_privileges"]:
        syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)


def _change_user(uid: int, gid: int) -> None:
    try:
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise SetupError("setup user: cannot set uid to unmapped user in user namespace") from error


def _limit(spec: dict[str, Any]) -> None:
    if spec["processes"]:
        _soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        limit = spec["processes"] if hard == resource.RLIM_INFINITY else min(hard, spec["processes"])
        resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))


def _drop_bounding_capabilities(mask: int) -> None:
    for number in range(_LAST_CAPABILITY + 1):
        if not mask >> number & 1:
            with contextlib.suppress(OSError):  # one that this kernel does not know
                syscalls.prctl(syscalls.PR_CAPBSET_DROP, number)


def _present_capabilities() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapPrm:"):
            return int(line.split()[1], 16)
    return 0


def _execute(spec: dict[str, Any], stdio: Sequence[int], status: int) -> NoReturn:
    try:
        os.chdir(spec["cwd"])
    except OSError as error:
        text = os.strerror(error.errno or 0).lower()
        raise SetupError(f'chdir to cwd ("{spec["cwd"]}") set in config.json failed: {text}') from error
    program = _look_up(spec["argv"][0], spec["env"])
    for fd in stdio:
        if stat.S_ISFIFO(os.fstat(fd).st_mode) and not spec["plain"]:
            with contextlib.suppress(OSError):
                os.fchown(fd, spec["uid"], spec["gid"])
    # The three may be numbers below 3 themselves.
    copies = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in stdio]
    for number, fd in enumerate(copies):
        os.dup2(fd, number)
    syscalls.close_on_exec_from(3)
    os.set_inheritable(status, False)
    try:
        os.execve(program, spec["argv"], spec["env"])  # noqa: S606 - the container's program
    except OSError as error:  # such as a missing loader: the container was started, as runc sees it
        os.write(2, f"exec {program}: {os.strerror(error.errno or 0).lower()}\n".encode())
        os._exit(_NOT_EXECUTED_CODE)


def _look_up(name: str, env: dict[str, str]) -> str:
    """Finds a program as Go's exec.LookPath does; raises _StartError with its text."""
    if "/" in name:
        if why := _unfit(name):
            raise _StartError(f'exec: "{name}": {why}')
        return name
    for directory in env.get("PATH", "").split(":"):
        path = os.path.join(directory or ".", name)  # noqa: PTH118
        if not _unfit(path):
            return path
    raise _StartError(f'exec: "{name}": executable file not found in $PATH')


def _unfit(path: str) -> str:
    """The reason why a file cannot be executed; empty if it can be."""
    try:
        mode = Path(path).stat().st_mode
    except OSError as error:
        return f"stat {path}: {os.strerror(error.errno or 0).lower()}"
    if stat.S_ISDIR(mode):
        return "is a directory"
    return "" if os.access(path, os.X_OK, effective_ids=True) else "permission denied"

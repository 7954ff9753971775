"""Starts the shim of a node: its namespaces, its record, and its socket.

A kubelet runs this in a process of its own, which ends when the shim serves (`shim_client.py`).
"""

import asyncio
import contextlib
import errno
import json
import os
import resource
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.kubelet.containers.host import cgroups, syscalls
from kubeskew.kubelet.containers.host.cgroups import Cgroups
from kubeskew.kubelet.containers.host.shim import Shim, ShimOptions
from kubeskew.kubelet.containers.host.shim_record import EXITS, RECORD, SOCKET, birth


def main() -> None:
    """Starts a shim in the background; its options are JSON in the first argument.

    Prints JSON: its PID, or an error.
    """
    values = json.loads(sys.argv[1])
    options = ShimOptions(**{**values, "directory": Path(values["directory"])})
    try:
        answer = _start(options)
    except OSError as error:
        answer = {"error": str(error), "errno": error.errno}
    sys.stdout.write(json.dumps(answer) + "\n")


def _start(options: ShimOptions) -> dict[str, Any]:
    os.setsid()
    groups = cgroups.find(options.cgroup) if options.cgroup else Cgroups({})
    rootless = False
    own_pid = False
    if not options.plain:
        rootless = _enter_user_namespace(options.user_namespace)
        own_pid = _can_mount_proc()
        syscalls.unshare(syscalls.CLONE_NEWNS | (syscalls.CLONE_NEWPID if own_pid else 0))
    reading, writing = os.pipe()
    begins, recorded = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.close(recorded)
        os.read(begins, 1)
        os.close(begins)
        _serve(options, groups, writing, rootless=rootless, own_pid=own_pid)
    os.close(writing)
    os.close(begins)
    directories = {name: str(path) for name, path in groups.directories.items()}
    record = {"pid": child, "birth": birth(child), "own_pid": own_pid, "cgroups": directories}
    # First: whoever started it may be killed, and the child puts another /proc in the place that both see.
    (options.directory / RECORD).write_text(json.dumps(record))
    os.close(recorded)
    with os.fdopen(reading) as answer:
        text = answer.read()
    if text != "ready":
        raise OSError(errno.EIO, text or "the shim ended")
    return record


def _enter_user_namespace(path: str) -> bool:
    """True if the process is in a user namespace in which it is root by mapping."""
    if path:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        syscalls.setns(fd, syscalls.CLONE_NEWUSER)
        os.close(fd)
        return True
    if os.geteuid() == 0 and _can(syscalls.CLONE_NEWNS):
        return False
    uid, gid = os.geteuid(), os.getegid()
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    syscalls.write_text("/proc/self/setgroups", "deny")
    syscalls.write_text("/proc/self/uid_map", f"0 {uid} 1")
    syscalls.write_text("/proc/self/gid_map", f"0 {gid} 1")
    return True


def _can(flags: int) -> bool:
    """Tries in a child whether namespaces can be made."""
    child = os.fork()
    if child == 0:
        try:
            syscalls.unshare(flags)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _can_mount_proc() -> bool:
    child = os.fork()
    if child == 0:
        try:
            syscalls.unshare(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID)
            inner = os.fork()
            if inner == 0:
                syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_SLAVE)
                syscalls.mount("proc", "/proc", "proc")
                os._exit(0)
            os._exit(0 if os.waitpid(inner, 0)[1] == 0 else 1)
        except OSError:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def _serve(options: ShimOptions, groups: Cgroups, ready: int, *, rootless: bool, own_pid: bool) -> NoReturn:
    try:
        if own_pid:
            syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_SLAVE)
            syscalls.mount("proc", "/proc", "proc")
        else:
            syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
        _soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # there are some for each container
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        (options.directory / EXITS).mkdir(parents=True, exist_ok=True)
        listener = listen(options.directory)
        silence = os.open("/dev/null", os.O_RDWR)
        log = os.open(options.directory / "shim.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for number, fd in ((0, silence), (1, log), (2, log)):
            os.dup2(fd, number)

        def is_ready() -> None:
            os.write(ready, b"ready")
            os.close(ready)

        shim = Shim(options, SystemClock(), groups, rootless=rootless, own_pid=own_pid)
        asyncio.run(shim.run(listener, is_ready))
    except Exception as error:  # the end of the process
        with contextlib.suppress(OSError):
            os.write(ready, f"{type(error).__name__}: {error}".encode())
        raise
    finally:
        os._exit(0)


def listen(directory: Path) -> socket.socket:
    """A socket in a directory whose path may be longer than that of a socket."""
    listener = socket.socket(socket.AF_UNIX)
    holder = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    with contextlib.suppress(FileNotFoundError):
        (directory / SOCKET).unlink()
    listener.bind(f"/proc/self/fd/{holder}/{SOCKET}")
    os.close(holder)
    (directory / SOCKET).chmod(0o600)
    listener.listen()
    return listener


if __name__ == "__main__":
    main()

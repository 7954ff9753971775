"""The user and network namespaces of a cluster's pods.

Source: unshare(2), setns(2), user_namespaces(7).
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kubeskew.kubelet.containers.host.syscalls import CLONE_NEWNET, CLONE_NEWUSER, setns, unshare

_REFUSALS = {errno.ENOSPC: "user.max_user_namespaces"}  # by it, not by a disk


class NamespacesRefusedError(OSError):
    """This machine lets this user make no namespaces."""


def open_namespace(kind: str, pid: int | str = "self") -> int:
    """A descriptor of the namespace of a process: `user` or `net`."""
    return os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)


def enter_new_user_namespace() -> None:
    """The process is root there, with the capabilities to make networks. It must have one thread.

    All users of this namespace are mapped if it may map them (it is root); else its own alone, as root.
    Raises NamespacesRefusedError.
    """
    maps = {name: _map(name, os.geteuid() == 0) for name in ("uid", "gid")}
    reading, writing = os.pipe()
    me, child = os.getpid(), os.fork()
    if child == 0:  # stays outside, where its right to map is
        status = 1
        try:
            os.close(writing)
            if os.read(reading, 1):
                _write_maps(me, maps)
                status = 0
        except OSError:
            status = 2
        finally:
            os._exit(status)
    os.close(reading)
    refusal = ""
    try:
        unshare(CLONE_NEWUSER)
        os.write(writing, b"1")
    except OSError as error:
        refusal = _REFUSALS.get(error.errno or 0) or os.strerror(error.errno or 0)
    os.close(writing)
    _, status = os.waitpid(child, 0)
    if refusal or status:
        reason = refusal or "its users cannot be mapped"
        text = "containers of the runtime host need them, those of host-plain do not"
        raise NamespacesRefusedError(1, f"this machine refuses user namespaces ({reason}): {text}")


def _map(name: str, is_root: bool) -> str:
    if not is_root:
        own = os.geteuid() if name == "uid" else os.getegid()
        return f"0 {own} 1\n"
    lines = (line.split() for line in Path(f"/proc/self/{name}_map").read_text().splitlines())
    return "".join(f"{inside} {inside} {count}\n" for inside, _, count in lines)


def _write_maps(pid: int, maps: dict[str, str]) -> None:
    if os.geteuid() != 0:
        Path(f"/proc/{pid}/setgroups").write_text("deny")
    for name, text in maps.items():
        Path(f"/proc/{pid}/{name}_map").write_text(text)


@contextmanager
def inside_network(descriptor: int, home: int) -> Iterator[None]:
    """Has this thread make sockets in the network of `descriptor`; then it is back at `home`."""
    setns(descriptor, CLONE_NEWNET)
    try:
        yield
    finally:
        setns(home, CLONE_NEWNET)


def new_network(home: int) -> int:
    """A descriptor of a new network namespace; the thread stays at `home`."""
    unshare(CLONE_NEWNET)
    try:
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        setns(home, CLONE_NEWNET)

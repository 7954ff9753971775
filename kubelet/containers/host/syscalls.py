"""Linux system calls that Python has no functions for: namespaces, mounts, files within a root.

Each raises OSError with the call's name and its target as file name.
"""

import ctypes
import fcntl
import os
import platform
import socket
import struct
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_NOATIME = 0x400
MS_NODIRATIME = 0x800
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_SLAVE = 0x80000
MS_SHARED = 0x100000
MS_RELATIME = 0x200000
MNT_DETACH = 0x2
# statvfs's flags have the values of mount's for these; a user namespace may not take them from a mount.
_KEPT_FLAGS = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME | MS_NODIRATIME
_ST_RELATIME = 0x1000

PR_SET_PDEATHSIG = 1
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38

NS_GET_USERNS = 0xB701

RESOLVE_IN_ROOT = 0x10
RESOLVE_NO_MAGICLINKS = 0x02
_AT_FDCWD = -100
_CLOSE_RANGE = 436
_OPENAT2 = 437
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, call: str, target: str = "") -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}", target or None)
    return result


def unshare(flags: int) -> None:
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(fd: int, kind: int = 0) -> None:
    _check(_libc.setns(ctypes.c_int(fd), ctypes.c_int(kind)), "setns")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        os.fsencode(data),
    )
    _check(result, "mount", target)


def unmount(target: str, flags: int = MNT_DETACH) -> None:
    _check(_libc.umount2(os.fsencode(target), ctypes.c_int(flags)), "umount", target)


def remount_read_only(target: str, extra: int = 0) -> None:
    """Makes a bind mount read-only; it keeps the flags that its file system was mounted with."""
    present = os.statvfs(target).f_flag
    flags = present & _KEPT_FLAGS | (MS_RELATIME if present & _ST_RELATIME else 0)
    mount("none", target, "", MS_BIND | MS_REMOUNT | MS_RDONLY | flags | extra)


def add_mount_flags(target: str, extra: int) -> None:
    """Adds flags such as MS_NODEV to a bind mount."""
    present = os.statvfs(target).f_flag
    flags = present & (_KEPT_FLAGS | MS_RDONLY) | (MS_RELATIME if present & _ST_RELATIME else 0)
    mount("none", target, "", MS_BIND | MS_REMOUNT | flags | extra)


def pivot_root(new_root: str, put_old: str) -> None:
    number = _PIVOT_ROOT.get(platform.machine())
    if number is None:
        raise OSError(38, f"pivot_root: not known for {platform.machine()}")
    _check(_libc.syscall(ctypes.c_long(number), os.fsencode(new_root), os.fsencode(put_old)), "pivot_root")


def prctl(option: int, argument: int = 0) -> int:
    zero = ctypes.c_ulong(0)
    return _check(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(argument), zero, zero, zero), "prctl")


def set_capabilities(mask: int) -> None:
    """Sets the effective and permitted capabilities; none are inheritable."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    data = struct.pack("=6I", low, low, 0, high, high, 0)
    _check(_libc.capset(header, data), "capset")


def close_on_exec_from(first: int) -> None:
    """No file descriptor from `first` on is handed to a program that is executed."""
    result = _libc.syscall(
        ctypes.c_long(_CLOSE_RANGE), ctypes.c_uint(first), ctypes.c_uint(0xFFFFFFFF), ctypes.c_uint(4)
    )
    if result < 0:  # Linux before 5.11
        for fd in sorted(int(path.name) for path in Path("/proc/self/fd").iterdir()):
            if fd >= first:
                _clear(fd)


def _clear(fd: int) -> None:
    try:
        os.set_inheritable(fd, False)
    except OSError:
        return  # that of the listing itself


def open_in_root(root: int, path: str, flags: int, mode: int = 0) -> int:
    """Opens a path as a process sees it whose root is the directory `root`: no link leads outside."""
    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, mode, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)
    result = _libc.syscall(
        ctypes.c_long(_OPENAT2),
        ctypes.c_int(root),
        os.fsencode(path),
        how,
        ctypes.c_size_t(len(how)),
    )
    return int(_check(result, "openat2", path))


def make_directories_in_root(root: int, path: str, mode: int = 0o755) -> int:
    """Opens a directory within a root; makes those that are missing."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    current = open_in_root(root, "/", os.O_PATH | os.O_DIRECTORY)
    for end in range(1, len(parts) + 1):
        prefix = "/".join(parts[:end])
        try:
            following = open_in_root(root, prefix, os.O_PATH | os.O_DIRECTORY)
        except FileNotFoundError:
            try:
                os.mkdir(parts[end - 1], mode, dir_fd=current)
            except FileExistsError as error:  # a link that leads nowhere
                os.close(current)
                raise NotADirectoryError(20, "Not a directory", path) from error
            following = open_in_root(root, prefix, os.O_PATH | os.O_DIRECTORY)
        os.close(current)
        current = following
    return current


def fd_path(fd: int) -> str:
    """A path that leads to an open file."""
    return f"/proc/self/fd/{fd}"


def owning_user_namespace(namespace: int) -> int:
    """Opens the user namespace that owns another namespace."""
    return fcntl.ioctl(namespace, NS_GET_USERNS)


def raise_loopback() -> None:
    """Sets the loopback interface of the network namespace up."""
    get_flags, set_flags, up = 0x8913, 0x8914, 0x1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH22x", b"lo", 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(control, get_flags, request), 16)
        fcntl.ioctl(control, set_flags, struct.pack("16sH22x", b"lo", flags | up))


def write_text(path: str, text: str) -> None:
    """Writes to a file of /proc or of a cgroup in one call."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def is_mount_point(path: Path) -> bool:
    try:
        return path.stat().st_dev != path.parent.stat().st_dev
    except OSError:
        return False

"""Builds the root file system of a container in its mount namespace.

Nothing of the image is trusted: each target is opened within the new root (openat2 with RESOLVE_IN_ROOT), so
that no symbolic link leads a mount to the machine's files.

Source: runc's libcontainer/rootfs_linux.go; containerd's pkg/cri/opts/spec_linux_opts.go and the OCI runtime
specification, config-linux.md.
"""

import errno
import os
import shutil
import stat
from pathlib import Path
from typing import Any

from kubeskew.kubelet.containers.host import syscalls
from kubeskew.kubelet.containers.host.syscalls import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_SLAVE,
)

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
    "core": "/proc/kcore",
}
_MASKED = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_CGROUPS = "/sys/fs/cgroup"
_SYSTEM_FLAGS = MS_NOSUID | MS_NODEV | MS_NOEXEC  # of /sys and what is mounted in it
_SHARED_MEMORY = 64 * 1024 * 1024


class SetupError(Exception):
    """The root of a container cannot be made; the text is runc's."""


def build(spec: dict[str, Any]) -> None:
    """Makes the root and changes into it. The process is in a mount namespace of its own already.

    Raises SetupError, and OSError for what no specification can be blamed for.
    """
    syscalls.mount("none", "/", "", MS_REC | MS_SLAVE)
    root_path = mount_root(spec)
    root = os.open(root_path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    _mount_proc(root)
    _mount_sys(root)
    _mount_cgroups(root, spec)
    _mount_dev(root, spec)
    for mount in sorted(spec["mounts"], key=lambda mount: _depth(mount["target"])):
        _bind(root, mount, spec)
    if not spec["unmasked"]:
        _protect(root)
    _make_working_directory(root, spec)
    os.chdir(root_path)
    if spec["read_only_root"]:
        syscalls.remount_read_only(".")
    syscalls.pivot_root(".", ".")
    syscalls.unmount(".")
    os.chdir("/")
    os.close(root)


def copy_tree(source: Path, target: Path, known: dict[tuple[int, int], Path] | None = None) -> None:
    """Copies a tree with its links, modes and owners into a new directory; it shares nothing with it."""
    seen = {} if known is None else known
    status = source.lstat()
    target.mkdir(parents=True, exist_ok=True)
    for entry in sorted(os.scandir(source), key=lambda entry: entry.name):
        path, made = Path(entry.path), target / entry.name
        if entry.is_dir(follow_symlinks=False):
            copy_tree(path, made, seen)
            continue
        status_of = entry.stat(follow_symlinks=False)
        same = seen.get((status_of.st_dev, status_of.st_ino))
        if same is not None:
            os.link(same, made, follow_symlinks=False)
            continue
        if entry.is_symlink():
            made.symlink_to(path.readlink())
        elif stat.S_ISREG(status_of.st_mode):
            shutil.copyfile(path, made, follow_symlinks=False)
        else:
            continue  # neither devices nor sockets are copied
        seen[status_of.st_dev, status_of.st_ino] = made
        _copy_attributes(status_of, made)
    _copy_attributes(status, target)


def _copy_attributes(status: os.stat_result, target: Path) -> None:
    if os.geteuid() == 0:
        try:
            os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EPERM):  # not of this user namespace
                raise
    if not stat.S_ISLNK(status.st_mode):
        target.chmod(stat.S_IMODE(status.st_mode))
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def mount_root(spec: dict[str, Any]) -> str:
    """Mounts the image below a writable layer of the container's own."""
    layer, lower = Path(spec["layer"]), Path(spec["lower"])
    merged = layer / "root"
    merged.mkdir(parents=True, exist_ok=True)
    if spec["overlay"]:
        upper, work = layer / "upper", layer / "work"
        work.mkdir(exist_ok=True)
        if not upper.exists():
            upper.mkdir()
            _copy_attributes(lower.stat(), upper)
        escaped = [
            str(path).replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")
            for path in (lower, upper, work)
        ]
        data = "lowerdir={},upperdir={},workdir={}".format(*escaped) + (
            ",userxattr" if spec["rootless"] else ""
        )
        syscalls.mount("overlay", str(merged), "overlay", MS_NODEV, data)
    else:
        copy_tree(lower, merged)
        syscalls.mount(str(merged), str(merged), "", MS_BIND | MS_REC)
        syscalls.add_mount_flags(str(merged), MS_NODEV)
    syscalls.mount("none", str(merged), "", MS_PRIVATE)
    return str(merged)


def _target(root: int, path: str) -> str:
    """Makes a directory within the root and returns a path for mounts on it."""
    fd = syscalls.make_directories_in_root(root, path)
    os.set_inheritable(fd, False)
    return syscalls.fd_path(fd)


def _mount_proc(root: int) -> None:
    target = _target(root, "/proc")
    try:
        syscalls.mount("proc", target, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    except PermissionError:  # parts of /proc are hidden here, as in a container: the kernel refuses a new one
        syscalls.mount("/proc", target, "", MS_BIND | MS_REC)


def _mount_sys(root: int) -> None:
    target = _target(root, "/sys")
    try:
        syscalls.mount("sysfs", target, "sysfs", _SYSTEM_FLAGS | MS_RDONLY)
    except PermissionError:  # the network namespace is not of this user namespace
        syscalls.mount("tmpfs", target, "tmpfs", _SYSTEM_FLAGS, "mode=755,size=65536")
        os.close(syscalls.make_directories_in_root(root, _CGROUPS))
        syscalls.remount_read_only(_reopened(root, "/sys"))


def _mount_cgroups(root: int, spec: dict[str, Any]) -> None:
    """Shows the container its own cgroups, which only a privileged one may change."""
    mounts = spec["cgroup_mounts"]
    if not mounts:
        return
    by_controller = any(name for _, name in mounts)
    if by_controller:
        above = _reopened(root, _CGROUPS)
        syscalls.mount("tmpfs", above, "tmpfs", _SYSTEM_FLAGS, "mode=755,size=65536")
    for source, name in mounts:
        place = f"{_CGROUPS}/{name}".rstrip("/")
        syscalls.mount(source, _target(root, place), "", MS_BIND)
        if not spec["privileged"]:
            syscalls.remount_read_only(_reopened(root, place), _SYSTEM_FLAGS)
    if by_controller:
        syscalls.remount_read_only(_reopened(root, _CGROUPS), _SYSTEM_FLAGS)


def _mount_dev(root: int, spec: dict[str, Any]) -> None:
    syscalls.mount("tmpfs", _target(root, "/dev"), "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=65536k")
    directory = syscalls.open_in_root(root, "/dev", os.O_RDONLY | os.O_DIRECTORY)
    for name, leads_to in _DEVICE_LINKS.items():
        os.symlink(leads_to, name, dir_fd=directory)
    devices = [(f"/dev/{name}", f"/dev/{name}", "rwm") for name in _DEVICES]
    if spec["privileged"]:
        devices += [(path, path, "rwm") for path in _machine_devices()]
    devices += [(device["target"], device["source"], device["permissions"]) for device in spec["devices"]]
    for target, source, permissions in devices:
        _bind_device(root, target, source, permissions)
    os.close(directory)
    _mount_terminals(_target(root, "/dev/pts"))
    data = f"mode=1777,size={_SHARED_MEMORY}"
    syscalls.mount("shm", _target(root, "/dev/shm"), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, data)  # noqa: S108
    try:
        syscalls.mount("mqueue", _target(root, "/dev/mqueue"), "mqueue", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    except OSError:
        return  # not in every kernel, nor for another's IPC namespace


def _mount_terminals(target: str) -> None:
    flags = MS_NOSUID | MS_NOEXEC
    try:
        syscalls.mount("devpts", target, "devpts", flags, "newinstance,ptmxmode=0666,mode=0620,gid=5")
    except OSError as error:
        if error.errno != errno.EINVAL:  # the group tty is not of this user namespace
            raise
        syscalls.mount("devpts", target, "devpts", flags, "newinstance,ptmxmode=0666,mode=0620")


def _machine_devices() -> list[str]:
    kept = {f"/dev/{name}" for name in (*_DEVICES, *_DEVICE_LINKS, "console")}
    return [
        entry.path
        for entry in sorted(os.scandir("/dev"), key=lambda entry: entry.name)
        if not entry.is_symlink()
        and entry.path not in kept
        and (stat.S_ISCHR(mode := entry.stat().st_mode) or stat.S_ISBLK(mode))
    ]


def _bind_device(root: int, target: str, source: str, permissions: str) -> None:
    try:
        mode = Path(source).stat().st_mode
    except OSError as error:
        raise SetupError(
            f'error gathering device information while adding custom device "{source}": {_reason(error)}'
        ) from error
    path = _file(root, target) if not stat.S_ISDIR(mode) else _target(root, target)
    syscalls.mount(source, path, "", MS_BIND | MS_REC)
    if "w" not in permissions:
        syscalls.remount_read_only(_reopened(root, target))


def _file(root: int, path: str) -> str:
    """Makes an empty file within the root if nothing is there, and returns a path for mounts on it."""
    parent = path.rstrip("/").rpartition("/")[0]
    try:
        fd = syscalls.open_in_root(root, path, os.O_PATH)
    except FileNotFoundError:
        os.close(syscalls.make_directories_in_root(root, parent or "/"))
        os.close(syscalls.open_in_root(root, path, os.O_CREAT | os.O_WRONLY, 0o644))
        fd = syscalls.open_in_root(root, path, os.O_PATH)
    return syscalls.fd_path(fd)


def _reopened(root: int, path: str) -> str:
    """A path to what is mounted at a path now."""
    return syscalls.fd_path(syscalls.open_in_root(root, path, os.O_PATH))


def _bind(root: int, mount: dict[str, Any], spec: dict[str, Any]) -> None:
    source, target = mount["source"], mount["target"]
    try:
        is_directory = stat.S_ISDIR(Path(source).stat().st_mode)
        path = _target(root, target) if is_directory else _file(root, target)
        syscalls.mount(source, path, "", MS_BIND | MS_REC)
        made = _reopened(root, target)
        syscalls.mount(
            "none", made, "", MS_REC | (MS_PRIVATE if mount["propagation"] == "None" else MS_SLAVE)
        )
        if mount["read_only"]:
            syscalls.remount_read_only(made, 0 if spec["privileged"] else MS_NODEV)
        elif not spec["privileged"]:
            syscalls.add_mount_flags(made, MS_NODEV)
    except OSError as error:
        text = f'error mounting "{source}" to rootfs at "{target}": {_reason(error)}'
        raise SetupError(text) from error


def _protect(root: int) -> None:
    for path in _MASKED:
        try:
            fd = syscalls.open_in_root(root, path, os.O_PATH)
        except OSError:
            continue
        target = syscalls.fd_path(fd)
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            syscalls.mount("tmpfs", target, "tmpfs", MS_RDONLY, "size=0")
        else:
            syscalls.mount("/dev/null", target, "", MS_BIND)
        os.close(fd)
    for path in _READ_ONLY:
        try:
            target = _reopened(root, path)
        except OSError:
            continue
        syscalls.mount(target, target, "", MS_BIND | MS_REC)
        syscalls.remount_read_only(_reopened(root, path))


def _make_working_directory(root: int, spec: dict[str, Any]) -> None:
    try:
        os.close(syscalls.make_directories_in_root(root, spec["cwd"]))
    except OSError as error:
        raise SetupError(f"mkdir {spec['cwd']}: {_reason(error)}") from error


def _depth(path: str) -> int:
    return len([part for part in path.split("/") if part])


def _reason(error: OSError) -> str:
    """The error's name as Go writes it."""
    text = os.strerror(error.errno) if error.errno else str(error)
    return text[:1].lower() + text[1:]

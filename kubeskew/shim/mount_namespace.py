"""Runs a program in a mount namespace of its own, in which a kubelet's fixed directories are its node's.

    python mount_namespace.py ROOT LOGS MACHINE PARENT PROGRAM ARGUMENTS

/var/lib/kubelet is ROOT there, /var/log is LOGS, and processors and memory are those that files in MACHINE
describe (`machine_files`). What a kubelet writes to the kernel's settings goes into
files that stand in their place, so that the machine's stay as they are. The mounts end with the program, and
the program with the process PARENT. It has a process group of its own. Without root a user namespace comes
first, in which the user is root; where there is no /var/lib/kubelet, a file system in memory covers /var/lib
then, which has all of it, and that directory.
Without arguments the namespaces are made, and nothing is run.

It is a program of its own, with the standard library alone, which becomes the other one: nothing of it stays.

Source: pkg/kubelet/cm/container_manager_linux.go (setupKernelTunables) and pkg/util/sysctl/sysctl.go, 1.36.
"""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWUSER = 0x00020000, 0x10000000  # linux/sched.h
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000  # linux/mount.h
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_CANNOT_RUN = 126  # as a shell's
_ROOT, _LOGS = "/var/lib/kubelet", "/var/log"
# Those that a kubelet sets at its start, with the values that it wants.
_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
_OWN = "sysctl"  # the directory of the files that stand for settings, in MACHINE
# By their names in MACHINE.
_PLACES = {
    "node": "/sys/devices/system/node",
    "online": "/sys/devices/system/cpu/online",
    "meminfo": "/proc/meminfo",
    "hugepages": "/sys/kernel/mm/hugepages",
}


def command(root: Path, logs: Path, machine: Path) -> list[str]:
    """The wrapper of a program: its command line begins with this."""
    return [sys.executable, "-I", "-S", __file__, str(root), str(logs), str(machine)]


def refusal() -> str:
    """The reason why this user cannot have such a namespace; empty if there is none."""
    command = [sys.executable, "-I", "-S", __file__]
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603 - this file
    return done.stderr.strip().rpartition("\n")[2]


def machine_files(processors: int, memory: int, huge_pages: Mapping[int, int]) -> dict[str, str]:
    """Describes one NUMA node of one socket, whose cores have a thread each; `memory` is in bytes.
    `huge_pages` has numbers of pages by their size in bytes.

    Source: github.com/google/cadvisor, utils/sysinfo/sysinfo.go and machine/machine.go, as of 1.31 … 1.36.
    """
    total = f"MemTotal:       {memory // 1024} kB\n"
    files = {
        "online": f"0-{processors - 1}\n",
        "meminfo": f"{total}MemFree:        {memory // 1024} kB\nMemAvailable:   {memory // 1024} kB\n"
        "SwapTotal:      0 kB\n",
        "node/node0/meminfo": f"Node 0 {total}",
        "node/node0/distance": "10\n",
    }
    for size, pages in huge_pages.items():
        name = f"hugepages/hugepages-{size // 1024}kB/nr_hugepages"
        files |= {name: f"{pages}\n", f"node/node0/{name}": f"{pages}\n"}
    for number in range(processors):
        topology = f"node/node0/cpu{number}/topology"
        files |= {f"{topology}/core_id": f"{number}\n", f"{topology}/physical_package_id": "0\n"}
    return files


def main(arguments: Sequence[str]) -> None:
    """Becomes the program; ends with an error in one line if that fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not arguments:
        try:
            return _unshare(libc)
        except OSError as error:
            sys.exit(f"{error.filename}: {error.strerror}")
    root, logs, machine, parent, program, *rest = arguments
    os.setpgrp()
    try:
        _unshare(libc)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # a new user namespace forgets it
        if os.getppid() != int(parent):
            sys.exit(128 + signal.SIGKILL)
        _separate(libc, Path(root), Path(logs), Path(machine))
        os.execv(program, [program, *rest])  # noqa: S606 - the user's program
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        sys.stderr.write(f"kubeskew: cannot run {program}: {error.strerror}{where}\n")
        sys.exit(_CANNOT_RUN)


def _unshare(libc: ctypes.CDLL) -> None:
    """Raises OSError."""
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_CLONE_NEWNS if user == 0 else _CLONE_NEWNS | _CLONE_NEWUSER):
        raise _error("a mount namespace" if user == 0 else "a user namespace")
    if user != 0:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            Path("/proc/self", name).write_text(text)
    _mount(libc, "none", "/", _MS_REC | _MS_PRIVATE)
    if not Path(_ROOT).is_dir():  # with root it was made
        _make_root(libc, Path(_ROOT))


def _make_root(libc: ctypes.CDLL, root: Path) -> None:
    """Covers the parent of `root` by a file system that has what is in it, and `root`. Raises OSError."""
    covered = os.open(root.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _mount(libc, "none", str(root.parent), 0, "tmpfs")
        root.mkdir()
        with os.scandir(covered) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                target = root.parent / entry.name
                if target == root:
                    continue
                if entry.is_symlink():
                    target.symlink_to(os.readlink(entry.name, dir_fd=covered))
                    continue
                if entry.is_dir(follow_symlinks=False):
                    target.mkdir()
                else:
                    target.touch()
                # Without root, a directory is bound with what is mounted below it, or not at all.
                _mount(libc, f"/proc/self/fd/{covered}/{entry.name}", str(target), _MS_BIND | _MS_REC)
    finally:
        os.close(covered)


def _separate(libc: ctypes.CDLL, root: Path, logs: Path, machine: Path) -> None:
    """Raises OSError."""
    for source, target in ((root, _ROOT), (logs, _LOGS)):
        source.mkdir(parents=True, exist_ok=True, mode=0o700)
        _mount(libc, str(source), target, _MS_BIND)
    for name, place in _PLACES.items():
        if (machine / name).exists() and Path(place).exists():
            _mount(libc, str(machine / name), place, _MS_BIND)
    own = machine / _OWN
    own.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, value in _SETTINGS.items():
        file, setting = own / name.replace("/", "."), Path("/proc/sys", name)
        if setting.exists():
            file.write_text(f"{value}\n")
            _mount(libc, str(file), str(setting), _MS_BIND)


def _mount(libc: ctypes.CDLL, source: str, target: str, flags: int, kind: str = "") -> None:
    if libc.mount(os.fsencode(source), os.fsencode(target), kind.encode() or None, flags, None):
        raise _error(target)


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Limits and use of containers by cgroups, version 1 or 2, where they can be written.

Source: Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst of Linux; runc's libcontainer/cgroups for the
conversion of CPU shares.
"""

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

FILE_SYSTEM = Path("/sys/fs/cgroup")
_WANTED = ("memory", "cpu", "cpuacct", "pids")
_LEAST_SHARES, _MOST_SHARES, _MOST_WEIGHT = 2, 262_144, 10_000


class Limits(NamedTuple):
    """0 stands for no limit."""

    memory_bytes: int = 0
    cpu_shares: int = 0
    cpu_quota: int = 0
    cpu_period: int = 0
    processes: int = 0


class Usage(NamedTuple):
    """The use of all processes of a cgroup."""

    core_seconds: float
    working_set: int
    resident: int
    processes: int


class Cgroups:
    """The cgroups of one node's containers, one per container in each hierarchy.

    `directories` are those above them, by controller; a unified hierarchy is one directory for all.
    """

    def __init__(self, directories: Mapping[str, Path]) -> None:
        self.directories = {name: directories[name] for name in _WANTED if name in directories}
        self._unified = any((directory / "cgroup.controllers").exists() for directory in self._distinct())

    @property
    def controllers(self) -> Sequence[str]:
        """Those whose limits hold."""
        return [*self.directories]

    def create(self, name: str, limits: Limits) -> list[str]:
        """The files that a process writes 0 to, to be in the container's cgroups."""
        made = [directory / name for directory in self._distinct()]
        for directory in made:
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o755)  # the container reads its limits, whoever its user is
        self.update(name, limits)
        return [str(directory / "cgroup.procs") for directory in made]

    def update(self, name: str, limits: Limits) -> None:
        """Raises OSError if the kernel refuses a limit."""
        files = _version_2(limits) if self._unified else _version_1(limits, self._memory_limit(name))
        for controller, file, value in files:
            directory = self.directories.get(controller)
            if directory is not None and (path := directory / name / file).exists():
                path.write_text(value)

    def _memory_limit(self, name: str) -> int:
        """The limit that a cgroup of version 1 has; 0 if none is known."""
        directory = self.directories.get("memory")
        with contextlib.suppress(OSError, ValueError):
            return int((directory / name / "memory.limit_in_bytes").read_text()) if directory else 0
        return 0

    def remove(self, name: str) -> bool:
        """False if one is in use still."""
        removed = True
        for directory in self._distinct():
            try:
                (directory / name).rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                removed = False
        return removed

    def mounts(self, name: str) -> list[tuple[str, str]]:
        """The container's own cgroups, each as (directory of the machine, name below /sys/fs/cgroup); the
        name is empty for the unified hierarchy. One of version 1 is at hand by each of its controllers."""
        if self._unified:
            return [(str(directory / name), "") for directory in self._distinct()]
        return [(str(directory / name), controller) for controller, directory in self.directories.items()]

    def processes(self, name: str) -> list[int]:
        """The PIDs of the container's processes, as the caller's PID namespace has them."""
        for directory in self._distinct():
            with contextlib.suppress(OSError):
                return [int(line) for line in (directory / name / "cgroup.procs").read_text().split()]
        return []

    def out_of_memory_kills(self, name: str) -> int:
        """The number of processes that were killed because the container had used up its memory."""
        directory = self.directories.get("memory")
        if directory is None:
            return 0
        file = "memory.events" if self._unified else "memory.oom_control"
        return _fields(directory / name / file).get("oom_kill", 0)

    def usage(self, name: str) -> Usage | None:
        """None if the cgroups do not say."""
        memory, cpu = (
            self.directories.get("memory"),
            self.directories.get("cpuacct" if not self._unified else "cpu"),
        )
        if memory is None or cpu is None:
            return None
        try:
            if self._unified:
                seconds = _fields(cpu / name / "cpu.stat").get("usage_usec", 0) / 1e6
                used = int((memory / name / "memory.current").read_text())
            else:
                seconds = int((cpu / name / "cpuacct.usage").read_text()) / 1e9
                used = int((memory / name / "memory.usage_in_bytes").read_text())
        except (OSError, ValueError):
            return None
        fields = _fields(memory / name / "memory.stat")
        inactive = fields.get("inactive_file" if self._unified else "total_inactive_file", 0)
        resident = fields.get("anon" if self._unified else "total_rss", 0)
        return Usage(seconds, max(used - inactive, 0), resident, len(self.processes(name)))

    def remove_all(self) -> bool:
        """Removes the cgroups of all containers, which have ended, and the directories above them; False if
        one is in use still."""
        for directory in self._distinct():
            with contextlib.suppress(OSError):
                for entry in sorted(directory.iterdir()):
                    if entry.is_dir():
                        with contextlib.suppress(OSError):
                            entry.rmdir()
                directory.rmdir()
        return not any(directory.exists() for directory in self._distinct())

    def _distinct(self) -> list[Path]:
        return [*dict.fromkeys(self.directories.values())]


def find(name: str, file_system: Path = FILE_SYSTEM, memberships: str | None = None) -> Cgroups:
    """The cgroups that this process may make, in directories of that name below its own.

    Those of a controller that cannot be used are left out. `memberships` is /proc/self/cgroup.
    """
    text = Path("/proc/self/cgroup").read_text() if memberships is None else memberships
    found: dict[str, Path] = {}
    for line in text.splitlines():
        _number, controllers, path = line.split(":", 2)
        if set(controllers.split(",")) & set(_WANTED):
            directory = _usable_version_1(file_system / controllers, path, name)
            if directory is not None:
                found.update(dict.fromkeys(controllers.split(","), directory))
        elif not controllers and (file_system / "cgroup.controllers").exists():
            found.update(_usable_version_2(file_system, path, name))
    return Cgroups(found)


def _usable_version_1(hierarchy: Path, path: str, name: str) -> Path | None:
    for above in (hierarchy / path.lstrip("/"), hierarchy):
        made = above / name
        try:
            made.mkdir(exist_ok=True)
        except OSError:
            continue
        if os.access(made / "cgroup.procs", os.W_OK):
            return made
    return None


def _usable_version_2(hierarchy: Path, path: str, name: str) -> dict[str, Path]:
    own = hierarchy / path.lstrip("/")
    for above in (own.parent if own != hierarchy else own, own):
        made = above / name
        try:
            _enable(above)
            made.mkdir(exist_ok=True)
            enabled = _enable(made)
        except OSError:
            continue
        if enabled and os.access(above / "cgroup.procs", os.W_OK):
            return dict.fromkeys(enabled, made)
        with contextlib.suppress(OSError):
            made.rmdir()
    return {}


def _enable(directory: Path) -> list[str]:
    """Lets the directories below have limits; the controllers of which they have."""
    there = (directory / "cgroup.controllers").read_text().split()
    enabled = (directory / "cgroup.subtree_control").read_text().split()
    for controller in _WANTED:
        if controller in there and controller not in enabled:
            (directory / "cgroup.subtree_control").write_text(f"+{controller}")
            enabled.append(controller)
    return [controller for controller in _WANTED if controller in enabled]


def _version_1(limits: Limits, memory_before: int) -> list[tuple[str, str, str]]:
    files = []
    if limits.memory_bytes:
        names = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]
        if 0 < memory_before < limits.memory_bytes:
            names.reverse()  # the first may never be above the second
        files += [("memory", name, str(limits.memory_bytes)) for name in names]
    if limits.cpu_shares:
        files.append(("cpu", "cpu.shares", str(limits.cpu_shares)))
    if limits.cpu_period:
        files.append(("cpu", "cpu.cfs_period_us", str(limits.cpu_period)))
    if limits.cpu_quota:
        files.append(("cpu", "cpu.cfs_quota_us", str(limits.cpu_quota)))
    if limits.processes:
        files.append(("pids", "pids.max", str(limits.processes)))
    return files


def _version_2(limits: Limits) -> list[tuple[str, str, str]]:
    files = [("memory", "memory.oom.group", "1")]  # all processes of a container are killed at once
    if limits.memory_bytes:
        files.append(("memory", "memory.max", str(limits.memory_bytes)))
        files.append(("memory", "memory.swap.max", "0"))
    if limits.cpu_shares:
        files.append(("cpu", "cpu.weight", str(weight_of(limits.cpu_shares))))
    if limits.cpu_quota or limits.cpu_period:
        quota = str(limits.cpu_quota) if limits.cpu_quota > 0 else "max"
        files.append(("cpu", "cpu.max", f"{quota} {limits.cpu_period or 100_000}"))
    if limits.processes:
        files.append(("pids", "pids.max", str(limits.processes)))
    return files


def weight_of(shares: int) -> int:
    """The weight of version 2 for shares of version 1."""
    shares = min(max(shares, _LEAST_SHARES), _MOST_SHARES)
    return 1 + (shares - _LEAST_SHARES) * (_MOST_WEIGHT - 1) // (_MOST_SHARES - _LEAST_SHARES)


def _fields(path: Path) -> dict[str, int]:
    """The numbers of a file with lines NAME NUMBER; none if it cannot be read."""
    try:
        pairs = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) > 1 and pair[1].isdigit()}

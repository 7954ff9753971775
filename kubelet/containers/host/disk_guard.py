"""Keeps containers from filling the disk that the kubelet and other pods need.

No quota can be set without root. So the free space is looked at several times a second; when it is short,
the container that writes most at the moment is killed (upstream's kubelet evicts pods, after a while).
"""

import os
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from kubeskew.kubelet.containers.host import usage

_LEAST_SHARE, _LEAST_BYTES = 0.1, 1 << 30
_SOONEST, _LATEST = 0.01, 0.25  # seconds between two looks
_SPEED = 2 << 30  # bytes that may be written in a second


class Written(NamedTuple):
    """The bytes that a container's processes have written: to disks, and to anything."""

    disk: int = 0
    calls: int = 0


class DiskGuard:
    """`free` are the bytes above the limit; `written` has the running containers by id; `kill` ends one."""

    def __init__(
        self,
        free: Callable[[], int],
        written: Callable[[], Mapping[str, Written]],
        kill: Callable[[str], None],
    ) -> None:
        self._free, self._written, self._kill = free, written, kill
        self._before: Mapping[str, Written] | None = None  # while the space is short

    def look(self) -> float:
        """The seconds until the next look."""
        free = self._free()
        if free > 0:
            self._before = None
            return min(max(free / _SPEED, _SOONEST), _LATEST)
        now = self._written()
        worst = "" if self._before is None else _worst(self._before, now)
        if worst:
            self._kill(worst)
        first, self._before = self._before is None, None if worst else now
        return _SOONEST if first else _LATEST


def _worst(before: Mapping[str, Written], now: Mapping[str, Written]) -> str:
    """The container that wrote most in between; empty if none wrote."""
    grown = {
        name: (use.disk - before.get(name, Written()).disk, use.calls - before.get(name, Written()).calls)
        for name, use in now.items()
    }
    name = max(grown, key=lambda name: grown[name], default="")
    return name if name and grown[name] > (0, 0) else ""


def free_bytes(directory: Path) -> int:
    """The free bytes above a limit of a tenth, or a gibibyte of a large disk."""
    try:
        disk = os.statvfs(directory)
    except OSError:
        return _LEAST_BYTES
    free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    return free - int(min(size * _LEAST_SHARE, _LEAST_BYTES))


def written_by(first: int) -> Written:
    """The bytes that a process and all below it have written."""
    disk = calls = 0
    waiting = deque([first])
    while waiting:
        pid = waiting.popleft()
        try:
            lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        except OSError:
            continue
        waiting.extend(usage.children(pid))
        fields = dict(line.split(": ") for line in lines)
        disk += int(fields.get("write_bytes", 0))
        calls += int(fields.get("wchar", 0))
    return Written(disk, calls)

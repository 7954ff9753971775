"""Reads the CPU seconds of processes from the kernel's books."""

import os
from collections.abc import Mapping
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time that the process has used so far; 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return 0.0
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / _TICKS


def memory_mb(pid: int) -> float:
    """Resident memory of the process, MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Meter:
    """CPU seconds of named processes since it was made: comparable on a busy machine, too."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._before = {name: cpu_seconds(pid) for name, pid in self._pids.items()}

    def total(self) -> dict[str, float]:
        """Counts since the processes began."""
        return {name: cpu_seconds(pid) for name, pid in self._pids.items()}

    def read(self) -> dict[str, float]:
        return {name: cpu_seconds(pid) - self._before[name] for name, pid in self._pids.items()}

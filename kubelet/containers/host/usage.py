"""The use of a container's processes by /proc, where its cgroups do not say it."""

import contextlib
import os
from collections import deque
from pathlib import Path

from kubeskew.kubelet.containers.host.cgroups import Usage

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def host_pid(shim: int, inner: int) -> int | None:
    """The PID of a shim's child in this PID namespace, by the one that it has in the shim's."""
    for child in children(shim):
        numbers = _namespace_pids(child)
        if inner in numbers[1:2] or numbers == [inner]:
            return child
    return None


def of_tree(first: int) -> Usage | None:
    """The use of a process and all below it; None if it has ended."""
    ticks, pages, count = 0, 0, 0
    waiting = deque([first])
    while waiting:
        pid = waiting.popleft()
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14])  # with waited children
        pages += max(int(fields[21]), 0)
        count += 1
        waiting.extend(children(pid))
    if not count:
        return None
    return Usage(ticks / _TICKS, pages * _PAGE, pages * _PAGE, count)


def below(first: int) -> list[int]:
    """The PIDs of all below a process."""
    found = children(first)
    for pid in found:  # which grows
        found += children(pid)
    return found


def children(pid: int) -> list[int]:
    """The PIDs of the processes that any thread of a process has forked."""
    found: list[int] = []
    for path in sorted(Path(f"/proc/{pid}/task").glob("*/children")):
        with contextlib.suppress(OSError):
            found += [int(text) for text in path.read_text().split()]
    return found


def _namespace_pids(pid: int) -> list[int]:
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return [int(text) for text in line.split()[1:]]
    except OSError:
        return []
    return []

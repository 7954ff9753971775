"""Ends what containers of a directory still run, whoever was killed before."""

import contextlib
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.clock import deadline
from kubeskew.kubelet.containers.host import usage
from kubeskew.kubelet.containers.host.cgroups import Cgroups
from kubeskew.kubelet.containers.host.shim_record import (
    CONTAINERS,
    MARK,
    RECORD,
    REMOVED,
    SOCKET,
    birth,
    process_ids,
)

_SECONDS = 10.0
_MARK = f"{MARK}=".encode()


def cleanup(directory: Path) -> None:
    """Ends all containers of the nodes whose runtimes keep their state at or below a directory, with the
    processes that started them and their cgroups. Mounts are in namespaces and end with these. Their files
    stay; the owner can remove them."""
    for record in _records(directory):
        try:
            content = json.loads(record.read_text())
        except (OSError, ValueError):
            content = {}
        _clean(record.parent, content)
        record.unlink(missing_ok=True)
        (record.parent / SOCKET).unlink(missing_ok=True)


def _records(directory: Path) -> list[Path]:
    """The records of shims; files of containers may be about to go."""
    found = []
    for above, directories, files in os.walk(directory):
        if RECORD in files:
            found.append(Path(above) / RECORD)
            directories.clear()
        directories.sort()
    return found


def _clean(directory: Path, record: dict[str, Any]) -> None:
    over = deadline(_SECONDS)
    pid = record.get("pid", 0)
    if pid and birth(pid) == record.get("birth"):
        if not record.get("own_pid"):
            _end_below(pid, over)
        _kill(pid)
        while birth(pid) == record["birth"] and not _is_zombie(pid) and not over():
            _pause()
    groups = Cgroups({name: Path(path) for name, path in (record.get("cgroups") or {}).items()})
    containers = directory / CONTAINERS
    names = sorted(path.name for path in containers.iterdir()) if containers.is_dir() else []
    while not over():
        left = [pid for name in names for pid in groups.processes(name)]
        if not record.get("own_pid"):
            left += _left_without_namespace(directory, set(names))
        if not left:
            break
        for process in left:
            _kill(process)
        _pause()
    while not groups.remove_all() and not over():  # processes that nobody has waited for yet are in them
        _pause()
    for closed in (containers, directory / REMOVED):
        _open(closed)


def _end_below(shim: int, over: Callable[[], bool]) -> None:
    """Ends all processes below a shim, which orphans of its containers have as their parent."""
    with contextlib.suppress(OSError):
        os.kill(shim, signal.SIGSTOP)  # it would note how they end, and start others
    while not over():
        left = [pid for pid in usage.below(shim) if not _is_zombie(pid)]
        if not left:
            return
        for pid in left:
            _kill(pid)
        _pause()


def _open(top: Path) -> None:
    """Lets the owner remove directories that a container, or an overlay, has closed."""
    if os.geteuid() == 0:
        return
    with contextlib.suppress(OSError):
        for above, directories, _files in os.walk(top):
            for name in directories:
                path = Path(above, name)
                if not path.is_symlink():
                    path.chmod(0o700)


def _left_without_namespace(directory: Path, names: set[str]) -> list[int]:
    found = []
    for entry in process_ids():
        if entry == os.getpid():
            continue
        with contextlib.suppress(OSError):
            variables = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
            marks = [text.removeprefix(_MARK).decode() for text in variables if text.startswith(_MARK)]
            mounts = Path(f"/proc/{entry}/mountinfo").read_text()
            if names.intersection(marks) or f"{directory}/{CONTAINERS}/" in mounts:
                found.append(entry)
    return found


def _kill(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (OSError, IndexError):
        return True


def _pause() -> None:
    """Waits some milliseconds."""
    with contextlib.suppress(OSError):
        signal.sigtimedwait(set(), 0.01)

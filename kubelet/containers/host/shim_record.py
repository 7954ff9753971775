"""The files by which a node's shim is found."""

from pathlib import Path

SOCKET, RECORD, EXITS = "shim.sock", "shim.json", "exits"
CONTAINERS = "containers"  # the directory with a directory for each container's files
REMOVED = "removed"  # the directory of what is being removed
MARK = "KUBESKEW_CONTAINER"  # in the environment of processes without namespaces


def process_ids() -> list[int]:
    """The PIDs of all processes that can be seen here, in ascending order."""
    return sorted(int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())


def birth(pid: int) -> str:
    """The time at which a process began, which tells it from a later one of the same PID; empty if none is
    there."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""

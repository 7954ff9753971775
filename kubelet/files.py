"""Writes state files completely or not at all, so that a kubelet killed at any point leaves a readable
one."""

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Replaces the file's content without waiting for the disk.

    A crash of the machine may lose it, as it loses the containers themselves; an empty file may be left.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


def read_kept(path: Path) -> bytes | None:
    """Returns what was written last; None if there is nothing, or a crash of the machine lost it."""
    try:
        return path.read_bytes() or None
    except FileNotFoundError:
        return None

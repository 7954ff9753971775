"""Puts files on the disk for good, and keeps what they replace."""

import os
from pathlib import Path


def flush(path: Path) -> None:
    """Waits until a file, or the names in a directory, are on the disk, before anything refers to them."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_part(path: Path, content: bytes | str) -> Path:
    """Writes the later contents of `path` to a file next to it, which the caller renames. Only the owner may
    read the file, at any moment.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_name(path.name + ".partial")
    data = content.encode() if isinstance(content, str) else content
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return part


def damaged_path(path: Path) -> Path:
    """First free name next to a file for a damaged one that is kept: `log.db.damaged-1`."""
    number = 1
    while (kept := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return kept

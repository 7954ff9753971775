"""Puts files on the disk for good, and keeps what they replace."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_FLUSHES_MAX = 32  # at a time: the disk does many as fast as one (3 to 7 ms)


def flush(path: Path) -> None:
    """Waits until a file, or the names in a directory, are on the disk, before anything refers to them."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_all(paths: Iterable[Path]) -> None:
    """Flushes concurrently, which takes the time of a few."""
    wanted = [*dict.fromkeys(paths)]
    if len(wanted) == 1:
        flush(wanted[0])
        return
    with ThreadPoolExecutor(_FLUSHES_MAX) as pool:
        for _ in pool.map(flush, wanted):
            pass


def flush_tree(directory: Path) -> None:
    """Flushes a directory with all files and directories below it, but links, sockets and the like."""
    below = [path for path in sorted(directory.rglob("*")) if not path.is_symlink()]
    flush_all([*(path for path in below if path.is_file() or path.is_dir()), directory])


def make_directory(path: Path, mode: int = 0o700) -> None:
    """Makes a directory that may be there, and those above it that are not, which only the owner may enter;
    their names are on the disk when this returns, as far as they are new.
    """
    if path.is_dir():
        return
    try:
        path.mkdir(mode=mode, exist_ok=True)
    except FileNotFoundError:
        make_directory(path.parent)
        path.mkdir(mode=mode, exist_ok=True)
    flush(path.parent)


def private_part(path: Path, content: bytes | str) -> Path:
    """Writes the later contents of `path` to a file next to it, which the caller renames. Only the owner may
    read the file, at any moment.
    """
    make_directory(path.parent)
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

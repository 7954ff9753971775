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


def damaged_path(path: Path) -> Path:
    """First free name next to a file for a damaged one that is kept: `log.db.damaged-1`."""
    number = 1
    while (kept := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return kept

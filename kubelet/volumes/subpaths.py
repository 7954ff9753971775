"""Finds or makes a directory within a volume, without being led out of it by links that a container made.

Upstream binds the directory to a place of its own at once, so that it stays the one that was checked. Here
the runtime mounts the path that was found: a container that changes the volume in between can mislead it.

Source: pkg/volume/util/subpath/subpath_linux.go, 1.36.
"""

import os
import stat
from pathlib import Path

from kubeskew.kubelet.volumes.files import check_path


class OutsideError(Exception):
    """The path leads out of the volume, or is no directory where one is needed."""


def make_safely(volume: Path, subpath: str, mode: int) -> None:
    """Makes the directories of the subpath that are missing, each with exactly this mode.

    Raises OutsideError and OSError.
    """
    check_path(subpath)
    base = volume.resolve()
    if (base / subpath).is_dir():
        return
    existing, missing = _existing(base, [part for part in subpath.split("/") if part not in ("", ".")])
    existing = existing.resolve()
    if not existing.is_relative_to(base):
        raise OutsideError(f"path {existing} is outside of allowed base {base}")
    descriptor = os.open(existing, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for part in missing:
            os.mkdir(part, mode, dir_fd=descriptor)
            inner = os.open(
                part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor
            )
            os.close(descriptor)
            descriptor = inner
            os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def _existing(base: Path, parts: list[str]) -> tuple[Path, list[str]]:
    current = base
    for position, part in enumerate(parts):
        if not (current / part).exists():
            return current, parts[position:]
        current = current / part
    return current, []


def find_safely(volume: Path, subpath: str) -> Path:
    """The subpath without links. Raises OutsideError and OSError."""
    check_path(subpath)
    base = volume.resolve()
    found = (base / subpath).resolve(strict=True)
    if not found.is_relative_to(base):
        raise OutsideError(f"subpath {found} not within volume path {base}")
    return found


def mode_of(directory: Path) -> int:
    return stat.S_IMODE(directory.stat().st_mode)

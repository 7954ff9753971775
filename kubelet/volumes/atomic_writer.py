"""Replaces the files of a volume in one step, as containers that read them meanwhile see it.

The files are in a directory whose name begins with the time, to which the link `..data` leads; links at
the top of the volume lead to their places below `..data`. An update writes another directory and renames the
link.

Source: pkg/volume/util/atomic_writer.go, 1.36.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.kubelet.containers.environment import ConfigError
from kubeskew.kubelet.volumes.files import KEEP, VolumeFiles, check_path

_DATA, _NEW_DATA = "..data", "..data_tmp"
_LONGEST_NAME, _LONGEST_PATH = 255, 4096


class FileProjection(NamedTuple):
    """The content of a file with its mode, and its user if that is not the kubelet's."""

    data: bytes
    mode: int
    user: int | None = None


Payload = Mapping[str, FileProjection]


class AtomicWriter:
    def __init__(
        self, files: VolumeFiles, directory: Path, clock: Clock, entropy: Entropy, *, owns_links: bool
    ) -> None:
        """`owns_links`: the links at the top belong to the user of their file, too (since 1.36)."""
        self._files = files
        self._directory = directory
        self._clock = clock
        self._entropy = entropy
        self._owns_links = owns_links

    def write(self, payload: Payload, set_permissions: Callable[[], None]) -> bool:
        """Is True if anything was written. `set_permissions` is called once the new files are there, before
        they can be seen. Raises ConfigError for a path that may not be, and OSError.
        """
        wanted = _checked(payload)
        for path in sorted(wanted):
            check_path(self._directory / path)
        old = self._old()
        gone: list[str] = []
        must_write = True
        if old is not None:
            gone = self._gone(wanted, old)
            must_write = bool(gone) or self._differs(wanted, old)
        if must_write:
            self._write_new(wanted, set_permissions)
        self._show(wanted)
        for name in gone:
            if "/" not in name:
                self._files.remove(self._directory / name)
        if must_write and old is not None:
            self._files.remove_tree(old)
        return must_write

    def _old(self) -> Path | None:
        link = self._directory / _DATA
        if self._files.status(link) is None:
            return None
        return self._directory / link.readlink()

    def _gone(self, wanted: Payload, old: Path) -> list[str]:
        """Finds the paths that were there and are not wanted any longer."""
        if self._files.status(old) is None:
            return []
        kept = {str(parent) for path in wanted for parent in (Path(path), *Path(path).parents)}
        there = sorted(str(path.relative_to(old)) for path, _ in self._files.below(old) if path != old)
        return [path for path in there if path not in kept]

    def _differs(self, wanted: Payload, old: Path) -> bool:
        return any(self._files.read(old / path) != file.data for path, file in wanted.items())

    def _write_new(self, wanted: Payload, set_permissions: Callable[[], None]) -> None:
        files = self._files
        number = int(self._entropy.random() * 2**32)
        time = self._clock.now().strftime("..%Y_%m_%d_%H_%M_%S")
        new = self._directory / f"{time}.{number}"
        files.make_directories(new, 0o700)
        files.change_mode(new, 0o755)
        for path, file in sorted(wanted.items()):
            files.make_directories((new / path).parent, 0o777)
            files.write(new / path, file.data, file.mode)
            if file.user is not None:
                files.change_owner(new / path, file.user, KEEP)
        set_permissions()
        temporary = self._directory / _NEW_DATA
        files.remove(temporary)  # left by a kubelet that was killed
        try:
            files.link(temporary, new.name)
            files.rename(temporary, self._directory / _DATA)
        except OSError:
            files.remove(temporary)
            files.remove_tree(new)
            raise

    def _show(self, wanted: Payload) -> None:
        """Makes the links at the top that are missing."""
        for path, file in sorted(wanted.items()):
            name = path.split("/")[0]
            link = self._directory / name
            if self._files.status(link) is not None:
                continue
            self._files.link(link, f"{_DATA}/{name}")
            if file.user is not None and self._owns_links:
                self._files.change_owner(link, file.user, KEEP)


def _checked(payload: Payload) -> Payload:
    """Cleans the paths. Raises ConfigError."""
    for path in sorted(payload):
        _check(path)
    return {os.path.normpath(path): file for path, file in payload.items()}


def _check(path: str) -> None:
    if not path:
        raise ConfigError('invalid path: must not be empty: ""')
    if path.startswith("/"):
        raise ConfigError(f"invalid path: must be relative path: {path}")
    if len(path.encode()) > _LONGEST_PATH:
        raise ConfigError(f"invalid path: must be less than or equal to {_LONGEST_PATH} characters")
    items = path.split("/")
    for item in items:
        if item == "..":
            raise ConfigError(f"invalid path: must not contain '..': {path}")
        if len(item.encode()) > _LONGEST_NAME:
            raise ConfigError(
                f"invalid path: filenames must be less than or equal to {_LONGEST_NAME} characters"
            )
    if items[0].startswith("..") and len(items[0]) > 2:
        raise ConfigError(f"invalid path: must not start with '..': {path}")

"""Unpacks the layers of an image into one directory.

Nothing of an archive is trusted: names are looked up within the directory (openat2 with RESOLVE_IN_ROOT), so
neither `..` nor links lead outside, devices are left out, and there are limits.

Source: the OCI image specification, layer.md; containerd's pkg/archive/tar.go.
"""

import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self

from kubeskew.kubelet.containers.host import syscalls
from kubeskew.kubelet.containers.host.images.image_config import BadImageError

MOST_BYTES = 16 * 1024**3
MOST_ENTRIES = 2_000_000
_OPAQUE = ".wh..wh..opq"
_WHITEOUT, _RESERVED = ".wh.", ".wh..wh."
_COPY_BYTES = 1 << 20
_MOST_DESCRIPTION = 1 << 20
_DESCRIBING = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)


class BoundedMember(tarfile.TarInfo):
    """A header of an archive. Those that describe the next one are read into memory whole, so they have a
    limit."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Raises BadImageError."""
        member = super().frombuf(buf, encoding, errors)
        if member.size < 0 or (member.type in _DESCRIBING and member.size > _MOST_DESCRIPTION):
            raise BadImageError(f"an entry of the archive has a header of {member.size} bytes")
        return member


class LayerUnpacker:
    """Unpacks layers over each other, the lowest first."""

    def __init__(self, root: Path, most_bytes: int = MOST_BYTES, most_entries: int = MOST_ENTRIES) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._bytes_left, self._entries_left = most_bytes, most_entries
        self._privileged = os.geteuid() == 0
        self._made: set[str] = set()  # by the layer at hand

    def close(self) -> None:
        os.close(self._root)

    def unpack(self, layer: BinaryIO) -> None:
        """Raises BadImageError."""
        self._made.clear()
        directories: list[tuple[str, tarfile.TarInfo]] = []
        try:
            with tarfile.open(fileobj=layer, mode="r|*", tarinfo=BoundedMember) as archive:
                for member in archive:
                    self._count(member)
                    name = _inside(member.name)
                    self._entry(archive, member, name)
                    if member.isdir():
                        directories.append((name, member))
            for name, member in reversed(directories):
                self._finish_directory(name, member)
        except (tarfile.TarError, OSError, EOFError, ValueError) as error:
            raise BadImageError(f"failed to extract layer: {error}") from error

    def _count(self, member: tarfile.TarInfo) -> None:
        self._entries_left -= 1
        self._bytes_left -= max(member.size, 0)
        if self._bytes_left < 0 or self._entries_left < 0:
            raise BadImageError("failed to extract layer: the image is larger than the limit")

    def _entry(self, archive: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> None:
        parent, _, base = name.rpartition("/")
        if not base:
            return  # the root itself
        with self._directory(parent) as directory:
            if base == _OPAQUE:
                self._clear(parent, directory)
            elif base.startswith(_RESERVED):
                return
            elif base.startswith(_WHITEOUT):
                _remove(base.removeprefix(_WHITEOUT), directory)
            else:
                self._make(archive, member, name, directory)
                self._made.add(name)

    def _make(self, archive: tarfile.TarFile, member: tarfile.TarInfo, name: str, directory: int) -> None:
        base = name.rpartition("/")[2]
        if member.isdir():
            if not _is_directory(base, directory):
                _remove(base, directory)
                os.mkdir(base, 0o700, dir_fd=directory)
            return
        if not (member.isreg() or member.issym() or member.islnk() or member.isfifo()):
            return  # a device
        _remove(base, directory)
        if member.issym():
            os.symlink(member.linkname, base, dir_fd=directory)
        elif member.islnk():
            target_parent, _, target = _inside(member.linkname).rpartition("/")
            with self._directory(target_parent) as other:
                os.link(target, base, src_dir_fd=other, dst_dir_fd=directory, follow_symlinks=False)
            return
        elif member.isfifo():
            os.mkfifo(base, 0o600, dir_fd=directory)
        else:
            self._write(archive, member, base, directory)
        self._attributes(member, base, directory)

    def _write(self, archive: tarfile.TarFile, member: tarfile.TarInfo, base: str, directory: int) -> None:
        content = archive.extractfile(member)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(base, flags, 0o600, dir_fd=directory), "wb") as file:
            if content is not None:
                shutil.copyfileobj(content, file, _COPY_BYTES)

    def _attributes(self, member: tarfile.TarInfo, base: str, directory: int) -> None:
        if self._privileged:
            os.chown(base, member.uid, member.gid, dir_fd=directory, follow_symlinks=False)
        if not member.issym():
            os.chmod(base, member.mode & 0o7777, dir_fd=directory)
        os.utime(base, (member.mtime, member.mtime), dir_fd=directory, follow_symlinks=False)

    def _finish_directory(self, name: str, member: tarfile.TarInfo) -> None:
        """Sets a directory's attributes once all is in it. Its owner must be able to write into it later."""
        with suppress(FileNotFoundError, NotADirectoryError):
            fd = syscalls.open_in_root(self._root, name or "/", os.O_RDONLY | os.O_DIRECTORY)
            try:
                if self._privileged:
                    os.fchown(fd, member.uid, member.gid)
                os.fchmod(fd, member.mode & 0o7777 | (0 if self._privileged else 0o700))
                os.utime(fd, (member.mtime, member.mtime))
            finally:
                os.close(fd)

    def _clear(self, name: str, directory: int) -> None:
        """Removes what lower layers have in a directory."""
        listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
        try:
            with os.scandir(listing) as entries:
                names = sorted(entry.name for entry in entries)
            for entry in names:
                path = f"{name}/{entry}" if name else entry
                if path not in self._made:
                    _remove(entry, directory)
        finally:
            os.close(listing)

    @contextmanager
    def _directory(self, name: str) -> Iterator[int]:
        fd = syscalls.make_directories_in_root(self._root, name)
        try:
            yield fd
        finally:
            os.close(fd)


def _inside(name: str) -> str:
    """An entry's name from the root. Raises BadImageError for one that leads upwards."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in name:
        raise BadImageError(f'failed to extract layer: the entry "{name}" leads out of the image')
    return "/".join(parts)


def _is_directory(base: str, directory: int) -> bool:
    try:
        os.close(os.open(base, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory))
    except OSError:
        return False
    return True


def _remove(base: str, directory: int) -> None:
    if base in ("", ".", ".."):
        raise BadImageError(f'failed to extract layer: the entry "{base}" leads out of the image')
    if _is_directory(base, directory):
        shutil.rmtree(base, dir_fd=directory)
    else:
        with suppress(FileNotFoundError):
            os.unlink(base, dir_fd=directory)

"""Keeps unpacked images by their content; the nodes of a cluster share one store.

An image is unpacked next to its place and renamed, so that a killed process leaves none that is half there.
"""

import dataclasses
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kubeskew.kubelet.containers.host.images import archives, programs
from kubeskew.kubelet.containers.host.images.image_config import BadImageError, ImageConfig, UnpackedImage
from kubeskew.kubelet.containers.host.images.layers import LayerUnpacker

_RECORD = "image.json"


class ImageSource(NamedTuple):
    """The source of an image: a path (a root file system, a layout or an archive), or a program."""

    path: Path | None = None
    program: Path | None = None


class ImageStore:
    """The images below one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def get(self, image_id: str) -> UnpackedImage | None:
        try:
            record = json.loads((self._place(image_id) / _RECORD).read_text())
        except (OSError, ValueError):
            return None
        return _image_of(record)

    def unpack(self, source: ImageSource, names: Sequence[str]) -> UnpackedImage:
        """Unpacks the image of one of these names unless it is there. Takes long. Raises BadImageError."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = source.program or source.path
        if path is None:
            raise BadImageError("the image has neither path nor program")
        try:
            path = path.resolve(strict=True)
        except OSError as error:
            raise BadImageError(f"{path}: {(error.strerror or str(error)).lower()}") from error
        if source.program is None and not archives.is_archive(path):
            return _of_directory(path)
        named = [source.program.name] if source.program is not None else names
        known = self._directory / f"{_fingerprint(path, named, program=source.program is not None)}.source"
        with self._locked():
            if known.exists() and (image := self.get(known.read_text())) is not None:
                return image
            try:
                if source.program is not None:
                    image = self._of_program(path, source.program.name)
                else:
                    image = self._of_archive(path, names)
            except BadImageError:
                raise
            except Exception as error:  # an archive may be malformed in any way
                raise BadImageError(f"{path} cannot be unpacked: {type(error).__name__}: {error}") from error
            known.write_text(image.id)
        return image

    def _of_program(self, program: Path, name: str) -> UnpackedImage:
        digest = hashlib.sha256(b"program " + name.encode())
        try:
            content = program.read_bytes()
        except OSError as error:
            raise BadImageError(f"the program {program} cannot be read: {error.strerror}") from error
        digest.update(content)
        for library in programs.libraries(program):
            digest.update(str(library).encode() + library.read_bytes())
        image_id = f"sha256:{digest.hexdigest()}"
        with self._new(image_id) as directory:
            if directory is not None:
                config = programs.make_root(program, name, directory / "root")
                self._record(directory, image_id, image_id, config)
        return self._kept(image_id)

    def _of_archive(self, path: Path, names: Sequence[str]) -> UnpackedImage:
        with archives.opened(path) as archive:
            found = archives.find(archive, names)
            with self._new(found.id) as directory:
                if directory is not None:
                    unpacker = LayerUnpacker(directory / "root")
                    try:
                        for layer in found.layers:
                            with archive.open(layer) as content:
                                unpacker.unpack(content)
                    finally:
                        unpacker.close()
                    config = ImageConfig.of(found.configuration.get("config") or {})
                    self._record(directory, found.id, found.digest, config)
        return self._kept(found.id)

    def _record(self, directory: Path, image_id: str, digest: str, config: ImageConfig) -> None:
        record = {
            "id": image_id,
            "digest": digest,
            "size": size_of(directory / "root"),
            "root": str(self._place(image_id) / "root"),
            "config": dataclasses.asdict(config),
        }
        (directory / _RECORD).write_text(json.dumps(record))

    def _kept(self, image_id: str) -> UnpackedImage:
        image = self.get(image_id)
        if image is None:
            raise BadImageError(f"the image {image_id} was removed while it was unpacked")
        return image

    def _place(self, image_id: str) -> Path:
        return self._directory / image_id.replace(":", "-")

    @contextmanager
    def _new(self, image_id: str) -> Iterator[Path | None]:
        """A directory that becomes the image's; None if it has one."""
        if self.get(image_id) is not None:
            yield None
            return
        directory = Path(tempfile.mkdtemp(prefix="unpacking-", dir=self._directory))
        try:
            (directory / "root").mkdir()
            (directory / "root").chmod(0o755)  # independent of the umask: containers run as any user
            yield directory
            directory.rename(self._place(image_id))
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One process unpacks at a time."""
        fd = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            for left in sorted(self._directory.glob("unpacking-*")):  # of a process that was killed
                shutil.rmtree(left, ignore_errors=True)
            yield
        finally:
            os.close(fd)


def size_of(directory: Path) -> int:
    """The bytes of a tree's files, each counted once; no link is followed."""
    total = 0
    linked: set[tuple[int, int]] = set()
    for above, _directories, files in os.walk(directory):
        for name in files:
            try:
                status = os.lstat(os.path.join(above, name))  # noqa: PTH118 - many files
            except OSError:
                continue
            if status.st_nlink > 1:
                if (status.st_dev, status.st_ino) in linked:
                    continue
                linked.add((status.st_dev, status.st_ino))
            total += status.st_size
    return total


def _of_directory(path: Path) -> UnpackedImage:
    """A root file system of the user's, which is used where it is."""
    digest = f"sha256:{hashlib.sha256(b'directory ' + os.fsencode(path)).hexdigest()}"
    return UnpackedImage(digest, digest, 0, path, ImageConfig())


def _image_of(record: Mapping[str, Any]) -> UnpackedImage:
    return UnpackedImage(
        record["id"], record["digest"], record["size"], Path(record["root"]), ImageConfig(**record["config"])
    )


def _fingerprint(path: Path, names: Sequence[str], *, program: bool) -> str:
    """Changes with the file, and with the names by which its image is looked for."""
    changed = [path, *(path / name for name in ("index.json", "manifest.json"))] if path.is_dir() else [path]
    parts = [str(program), *names]
    for file in changed:
        if file.exists():
            status = file.stat()
            parts.append(f"{file} {status.st_ino} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()

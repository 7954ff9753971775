"""Reads images from OCI layouts and from archives of `docker save` and `skopeo`.

Source: the OCI image specification, image-layout.md, image-index.md and manifest.md; Docker's image
specification v1.2, "Combined Image JSON + Filesystem Changeset Format".
"""

import gzip
import hashlib
import json
import platform
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

from kubeskew.kubelet.containers.host.images.image_config import BadImageError
from kubeskew.kubelet.containers.host.images.layers import MOST_BYTES, BoundedMember

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_NAMES = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MOST_JSON = 16 * 1024 * 1024
_HASHED_BYTES = 1 << 20


class Archive(Protocol):
    """The files of an image."""

    def has(self, name: str) -> bool: ...

    def open(self, name: str) -> BinaryIO:
        """Raises BadImageError."""
        ...


class ArchivedImage(NamedTuple):
    """An image within an archive."""

    id: str
    digest: str
    configuration: Mapping[str, Any]
    layers: Sequence[str]  # names of files


class DirectoryArchive:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def has(self, name: str) -> bool:
        return (self._directory / name).is_file()

    def open(self, name: str) -> BinaryIO:
        if name.startswith("/") or ".." in name.split("/"):
            raise BadImageError(f"{name} leads out of {self._directory}")
        try:
            return (self._directory / name).open("rb")
        except OSError as error:
            raise BadImageError(f"{name} is missing in {self._directory}") from error


class TarArchive:
    def __init__(self, path: Path, archive: tarfile.TarFile) -> None:
        self._path = path
        self._archive = archive
        self._members = {member.name.removeprefix("./"): member for member in archive.getmembers()}

    def has(self, name: str) -> bool:
        return name in self._members

    def open(self, name: str) -> BinaryIO:
        member = self._members.get(name)
        for _link in range(8):  # docker save links layers that images share
            if member is None or not (member.issym() or member.islnk()):
                break
            target = member.linkname if member.islnk() else f"{name.rpartition('/')[0]}/{member.linkname}"
            member = self._members.get(_normal(target))
        content = self._archive.extractfile(member) if member is not None and member.isreg() else None
        if content is None:
            raise BadImageError(f"{name} is missing in {self._path}")
        return cast("BinaryIO", content)


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """Opens a layout's directory or an archive, which may be compressed by gzip. Raises BadImageError."""
    if path.is_dir():
        yield DirectoryArchive(path)
        return
    try:
        with path.open("rb") as file:
            if file.read(2) == b"\x1f\x8b":
                with tempfile.TemporaryFile() as plain:
                    _decompress(path, plain)
                    plain.seek(0)
                    with tarfile.open(fileobj=plain, mode="r:", tarinfo=BoundedMember) as archive:
                        yield TarArchive(path, archive)
                return
        with tarfile.open(path, mode="r:", tarinfo=BoundedMember) as archive:
            yield TarArchive(path, archive)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise BadImageError(f"{path} is no archive of an image: {error}") from error


def is_archive(path: Path) -> bool:
    """A directory with these files is an image's layout, no root file system."""
    return not path.is_dir() or (path / "index.json").is_file() or (path / "manifest.json").is_file()


def find(archive: Archive, names: Sequence[str]) -> ArchivedImage:
    """The image with one of these names, or else the first one of this machine's architecture. Raises
    BadImageError."""
    if archive.has("index.json"):
        return _of_index(archive, names)
    if archive.has("manifest.json"):
        return _of_docker(archive, names)
    raise BadImageError("neither index.json nor manifest.json is in the archive")


def checked(archive: Archive, name: str, digest: str) -> BinaryIO:
    """Opens a file whose digest is known. Raises BadImageError if it has another."""
    algorithm, _, wanted = digest.partition(":")
    if algorithm != "sha256":
        raise BadImageError(f"the digest {digest} is not supported")
    found = hashlib.sha256()
    file = archive.open(name)
    while data := file.read(_HASHED_BYTES):
        found.update(data)
    if found.hexdigest() != wanted:
        raise BadImageError(f"{name}: unexpected commit digest sha256:{found.hexdigest()}, expected {digest}")
    file.seek(0)
    return file


def _of_index(archive: Archive, names: Sequence[str]) -> ArchivedImage:
    manifests = _list(_json(archive, "index.json"), "manifests")
    named = [
        entry
        for entry in manifests
        if any((entry.get("annotations") or {}).get(key) in names for key in _NAMES)
    ]
    descriptor = _of_this_machine(named or manifests)
    for _level in range(4):
        if descriptor.get("mediaType") not in _INDEXES:
            break
        index = _blob(archive, descriptor)
        descriptor = _of_this_machine(_list(index, "manifests"))
    manifest = _blob(archive, descriptor)
    config = manifest.get("config")
    if not isinstance(config, dict):
        raise BadImageError("the manifest has no configuration")
    layers = []
    for layer in _list(manifest, "layers"):
        if "zstd" in str(layer.get("mediaType")):
            raise BadImageError("a layer is compressed by zstd, which is not supported")
        name = _blob_name(layer)
        checked(archive, name, layer["digest"]).close()
        layers.append(name)
    return ArchivedImage(config["digest"], descriptor["digest"], _blob(archive, config), layers)


def _of_docker(archive: Archive, names: Sequence[str]) -> ArchivedImage:
    entries = _json(archive, "manifest.json")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise BadImageError("manifest.json lists no image")
    named = [entry for entry in entries if any(tag in names for tag in entry.get("RepoTags") or [])]
    entry = (named or entries)[0]
    name, layers = entry.get("Config"), entry.get("Layers")
    if not isinstance(name, str) or not isinstance(layers, list):
        raise BadImageError("manifest.json has no configuration and layers")
    with archive.open(name) as file:
        content = file.read(_MOST_JSON)
    digest = hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()
    configuration = _parsed(content, name)
    return ArchivedImage(
        f"sha256:{hashlib.sha256(content).hexdigest()}",
        f"sha256:{digest}",
        configuration,
        [str(layer) for layer in layers],
    )


def _of_this_machine(descriptors: Sequence[Any]) -> Mapping[str, Any]:
    architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
    for descriptor in descriptors:
        wanted = descriptor.get("platform") or {}
        if wanted.get("architecture", architecture) == architecture and wanted.get("os", "linux") == "linux":
            return cast("Mapping[str, Any]", descriptor)
    raise BadImageError(f"no match for platform in manifest: linux/{architecture}")


def _blob_name(descriptor: Mapping[str, Any]) -> str:
    algorithm, _, digest = str(descriptor.get("digest")).partition(":")
    if algorithm != "sha256" or len(digest) != 64 or not digest.isalnum():
        raise BadImageError(f"the digest {descriptor.get('digest')} is not supported")
    return f"blobs/{algorithm}/{digest}"


def _blob(archive: Archive, descriptor: Mapping[str, Any]) -> Mapping[str, Any]:
    name = _blob_name(descriptor)
    with checked(archive, name, descriptor["digest"]) as file:
        return cast("Mapping[str, Any]", _parsed(file.read(_MOST_JSON), name))


def _json(archive: Archive, name: str) -> Any:
    with archive.open(name) as file:
        return _parsed(file.read(_MOST_JSON), name)


def _parsed(content: bytes, name: str) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise BadImageError(f"{name} is no JSON: {error}") from error


def _list(content: Any, key: str) -> list[Any]:
    entries = content.get(key) if isinstance(content, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise BadImageError(f"the list {key} is missing")
    return entries


def _normal(path: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts[-1:] = []
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def _decompress(path: Path, target: Any) -> None:
    with gzip.open(path) as content:
        left = MOST_BYTES
        while data := content.read(_HASHED_BYTES):
            left -= len(data)
            if left < 0:
                raise BadImageError(f"{path} is larger than the limit")
            target.write(data)

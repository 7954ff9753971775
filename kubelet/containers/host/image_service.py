"""The images of one node: what its containers may run, and what it has pulled.

Source: containerd's pkg/reference and core/remotes/docker/resolver.go for the text of a registry's 404;
pkg/kubelet/images, 1.36, for its reasons.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from kubeskew.kubelet.containers.host.images.image_config import BadImageError, UnpackedImage
from kubeskew.kubelet.containers.host.images.store import ImageSource, ImageStore
from kubeskew.kubelet.containers.image_entries import fits
from kubeskew.kubelet.containers.runtime_service import Image, ImageError
from kubeskew.kubelet.containers.sandbox import full_image_name
from kubeskew.kubelet.files import UNJOURNALLED


class HostImages:
    """Pulls from the sources that a mapping of names, with wildcards, has; the first that fits counts."""

    def __init__(self, record: Path, store: ImageStore, sources: Mapping[str, ImageSource]) -> None:
        self._record = record
        self._store = store
        self._sources = dict(sources)
        self._pulled: dict[str, str] = {}  # IDs by full name
        content = UNJOURNALLED.read(record)
        if content:
            self._pulled = json.loads(content)
        self._directories: dict[str, UnpackedImage] = {}  # root file systems, which are in no store

    async def images(self) -> Sequence[Image]:
        names: dict[str, list[str]] = {}
        for name, image_id in self._pulled.items():
            names.setdefault(image_id, []).append(name)
        found = [(self.unpacked(named[0]), named) for named in names.values()]
        return [_image(image, named) for image, named in found if image is not None]

    async def image(self, name: str) -> Image | None:
        return self._found(name)

    async def remove_image(self, name: str) -> None:
        """Leaves it: its files are the machine's, and cost the node nothing."""

    def _found(self, name: str) -> Image | None:
        full = full_image_name(name)
        image = self.unpacked(name)
        if image is None:
            return None
        return _image(image, [full, *(n for n, i in self._pulled.items() if i == image.id and n != full)])

    def image_directory(self, name: str) -> Path | None:
        """The root file system of an image that was pulled."""
        image = self.unpacked(name)
        return image.root if image is not None else None

    def reference(self, name: str) -> str:
        """NAME@sha256:… of an image that was pulled, else empty."""
        image = self._found(name)
        return image.reference if image is not None else ""

    def unpacked(self, name: str) -> UnpackedImage | None:
        """An image that was pulled, by its name or ID."""
        full = full_image_name(name)
        image_id = self._pulled.get(full) or (name if name in self._pulled.values() else None)
        if image_id is None:
            return None
        image = self._store.get(image_id) or self._directories.get(image_id)
        if image is None and full in self._pulled:  # a directory, after a restart
            source = self.source(name)
            if source is not None and source.path is not None and source.path.is_dir():
                image = self._store.unpack(source, [full, name])
                self._directories[image.id] = image
        return image

    async def pull_image(self, name: str) -> Image:
        source = self.source(name)
        full = full_image_name(name)
        if source is None:
            raise ImageError("ErrImagePull", _not_found(full))
        try:
            image = await asyncio.to_thread(self._store.unpack, source, [full, name])
        except BadImageError as error:
            text = f'rpc error: code = Unknown desc = failed to pull and unpack image "{full}": {error}'
            raise ImageError("ErrImagePull", text) from error
        if self._store.get(image.id) is None:
            self._directories[image.id] = image
        wanted = full.partition("@")[2]
        if wanted and wanted != image.digest:
            raise ImageError("ErrImagePull", _not_found(full))
        self._pulled[full] = image.id
        UNJOURNALLED.write(self._record, json.dumps(self._pulled, indent=2).encode())
        return _image(image, [full])

    def source(self, name: str) -> ImageSource | None:
        """The source for an image's name, by the first pattern that fits."""
        return next((source for pattern, source in self._sources.items() if fits(pattern, name)), None)


def _image(image: UnpackedImage, names: Sequence[str]) -> Image:
    reference = f"{_repository(names[0])}@{image.digest}"
    return Image(image.id, reference, image.size, [*names], image.config.user)


def _repository(name: str) -> str:
    """An image's name without tag and digest."""
    name = name.partition("@")[0]
    head, slash, tail = name.rpartition("/")
    return f"{head}{slash}{tail.partition(':')[0]}"


def _not_found(full: str) -> str:
    return (
        f'rpc error: code = NotFound desc = failed to pull and unpack image "{full}": '
        f'failed to resolve reference "{full}": {full}: not found'
    )

"""The names of images, and what a node has pulled."""

from pathlib import Path

import pytest

from kubeskew.kubelet.containers.host.image_service import HostImages
from kubeskew.kubelet.containers.host.images.store import ImageSource, ImageStore
from kubeskew.kubelet.containers.runtime_service import ImageError


def images(directory: Path, *patterns: str) -> HostImages:
    root = directory / "root"
    root.mkdir(exist_ok=True)
    sources = dict.fromkeys(patterns, ImageSource(path=root))
    return HostImages(directory / "images.json", ImageStore(directory / "store"), sources)


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("busybox", "busybox", True),
        ("busybox", "busybox:1.36", True),
        ("busybox:1.35", "busybox:1.36", False),
        ("busybox*", "docker.io/library/busybox:1.36", True),
        ("docker.io/library/busybox", "busybox:1.36", True),
        ("*/agnhost:*", "registry.k8s.io/e2e-test-images/agnhost:2.53", True),
        ("registry.k8s.io/*", "registry.k8s.io/pause:3.10", True),
        ("registry.k8s.io/*", "pause:3.10", False),
        ("localhost:5000/app", "localhost:5000/app:2", True),
    ],
)
def test_patterns(tmp_path: Path, pattern: str, name: str, fits: bool):
    """A pattern fits the name as given, in full or short, each with its tag or without."""
    assert (images(tmp_path, pattern).source(name) is not None) == fits


async def test_pulled_images_are_known(tmp_path: Path):
    """A node has what it pulled, also when the kubelet starts again, with the names that pods used."""
    service = images(tmp_path, "app*")
    assert await service.image("app:1") is None
    pulled = await service.pull_image("app:1")
    assert pulled.reference == f"docker.io/library/app@{pulled.id}"
    again = images(tmp_path, "app*")
    assert await again.image("app:1") == pulled
    assert [image.names for image in await again.images()] == [["docker.io/library/app:1"]]
    assert await again.image("app:2") is None


async def test_images_without_entry(tmp_path: Path):
    """An image that no pattern fits is not found, as containerd says it of a registry's 404."""
    with pytest.raises(ImageError) as refused:
        await images(tmp_path, "app*").pull_image("other:2")
    assert refused.value.reason == "ErrImagePull"
    full = "docker.io/library/other:2"
    assert str(refused.value) == (
        f'rpc error: code = NotFound desc = failed to pull and unpack image "{full}": '
        f'failed to resolve reference "{full}": {full}: not found'
    )


async def test_sources_that_cannot_be_used(tmp_path: Path):
    """A source that cannot be unpacked fails the pull with the reason."""
    (tmp_path / "bad.tar").write_bytes(b"nonsense")
    sources = {"app": ImageSource(path=tmp_path / "bad.tar"), "gone": ImageSource(path=tmp_path / "gone")}
    service = HostImages(tmp_path / "images.json", ImageStore(tmp_path / "store"), sources)
    for name, why in (("app", "is no archive of an image"), ("gone", "no such file or directory")):
        with pytest.raises(ImageError, match=why):
            await service.pull_image(name)

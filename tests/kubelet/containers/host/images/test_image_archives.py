"""Images of OCI layouts and of docker's archives, with layers that cannot be trusted."""

import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kubeskew.kubelet.containers.host.images.image_config import BadImageError
from kubeskew.kubelet.containers.host.images.layers import LayerUnpacker
from kubeskew.kubelet.containers.host.images.store import ImageSource, ImageStore

Entry = tuple[str, Mapping[str, Any], bytes]
CONFIG = {
    "Entrypoint": ["/server"],
    "Cmd": ["-v"],
    "Env": ["A=1", "B=x=y"],
    "WorkingDir": "/w",
    "User": "7:8",
}


def file(name: str, content: bytes = b"", **fields: Any) -> Entry:
    return name, {"mode": 0o644, **fields}, content


def directory(name: str) -> Entry:
    return name, {"type": tarfile.DIRTYPE, "mode": 0o755}, b""


def link(name: str, target: str) -> Entry:
    return name, {"type": tarfile.SYMTYPE, "linkname": target}, b""


def hard_link(name: str, target: str) -> Entry:
    return name, {"type": tarfile.LNKTYPE, "linkname": target}, b""


def device(name: str) -> Entry:
    return name, {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3, "mode": 0o666}, b""


def packed(*entries: Entry) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, fields, content in entries:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.uid = member.gid = os.geteuid()
            for field, value in fields.items():
                setattr(member, field, value)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def layout(layers: Sequence[bytes], names: Sequence[str] = ()) -> dict[str, bytes]:
    """The files of an OCI layout with one image."""
    config = json.dumps({"config": CONFIG}).encode()
    described = [
        {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest(each)} for each in layers
    ]
    manifest = json.dumps({"config": {"digest": digest(config)}, "layers": described}).encode()
    annotations = {"io.containerd.image.name": names[0]} if names else {}
    index = {"manifests": [{"digest": digest(manifest), "annotations": annotations}]}
    blobs = {f"blobs/sha256/{digest(each)[7:]}": each for each in (config, manifest, *layers)}
    return {"oci-layout": b"{}", "index.json": json.dumps(index).encode(), **blobs}


def docker(layers: Sequence[bytes], tag: str = "app:1") -> dict[str, bytes]:
    config = json.dumps({"config": CONFIG}).encode()
    files = {f"{number}/layer.tar": content for number, content in enumerate(layers)}
    manifest = [{"Config": "c.json", "RepoTags": [tag], "Layers": [*files]}]
    return {"manifest.json": json.dumps(manifest).encode(), "c.json": config, **files}


def archive_of(files: Mapping[str, bytes]) -> bytes:
    return packed(*[file(name, content) for name, content in files.items()])


LAYERS = [
    packed(
        directory("bin"),
        file("bin/tool", b"first", mode=0o755),
        file("gone", b"x"),
        directory("full"),
        file("full/a", b"x"),
    ),
    packed(
        file("bin/.wh.nothing"),
        file(".wh.gone"),
        file("full/.wh..wh..opq"),
        file("full/b", b"y"),
        file("bin/tool", b"second", mode=0o4755),
        hard_link("bin/other", "bin/tool"),
        link("bin/link", "/bin/tool"),
    ),
]


@pytest.mark.parametrize("kind", ["layout directory", "layout", "compressed layout", "docker"])
def test_images_are_unpacked(tmp_path: Path, kind: str):
    """Layers are laid over each other with their whiteouts; the configuration is the image's."""
    path = tmp_path / "image"
    if kind == "layout directory":
        for name, content in layout([gzip.compress(each) for each in LAYERS]).items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
    elif kind == "docker":
        path.write_bytes(archive_of(docker(LAYERS)))
    else:
        content = archive_of(layout(LAYERS))
        path.write_bytes(gzip.compress(content) if kind.startswith("compressed") else content)
    store = ImageStore(tmp_path / "store")
    image = store.unpack(ImageSource(path=path), ["docker.io/library/app:1", "app:1"])
    names = sorted(str(each.relative_to(image.root)) for each in image.root.rglob("*"))
    assert names == ["bin", "bin/link", "bin/other", "bin/tool", "full", "full/b"]
    assert (image.root / "bin" / "other").read_bytes() == b"second"
    assert stat.S_IMODE((image.root / "bin" / "tool").stat().st_mode) == 0o4755
    assert (image.root / "bin" / "link").readlink() == Path("/bin/tool")
    assert image.config.entrypoint == ["/server"]
    assert image.config.env == {"A": "1", "B": "x=y"}
    assert (image.config.command, image.config.user, image.config.working_directory) == (["-v"], "7:8", "/w")
    assert image.id == digest(json.dumps({"config": CONFIG}).encode())
    assert store.get(image.id) == image
    assert store.unpack(ImageSource(path=path), ["docker.io/library/app:1", "app:1"]) == image


def test_an_image_is_found_by_its_name(tmp_path: Path):
    """Of several images in an archive the one with the name that is asked for is taken."""
    content = docker(LAYERS[:1])
    entries = json.loads(content["manifest.json"])
    other = {**entries[0], "RepoTags": ["other:2"], "Layers": []}
    content["manifest.json"] = json.dumps([other, *entries]).encode()
    (tmp_path / "image").write_bytes(archive_of(content))
    image = ImageStore(tmp_path / "store").unpack(ImageSource(path=tmp_path / "image"), ["app:1"])
    assert (image.root / "bin" / "tool").exists()


@pytest.mark.parametrize(
    "entries",
    [
        [file("../outside", b"x")],
        [file("a/../../outside", b"x")],
        [file(".wh...", b"")],
        [directory("a"), hard_link("a/b", "../outside")],
        [hard_link("a", "/etc/passwd")],
        [link("a", ".."), file("a/../outside", b"x")],
    ],
    ids=["upwards", "upwards within", "whiteout", "hard link upwards", "hard link outside", "by a link"],
)
def test_entries_that_lead_outside_are_refused(tmp_path: Path, entries: Sequence[Entry]):
    """A layer with an entry that leads out of the image is refused, and nothing outside is touched."""
    (tmp_path / "outside").write_bytes(b"mine")
    unpacker = LayerUnpacker(tmp_path / "root")
    with pytest.raises(BadImageError, match="failed to extract layer"):
        unpacker.unpack(io.BytesIO(packed(*entries)))
    unpacker.close()
    assert (tmp_path / "outside").read_bytes() == b"mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside", "root"]


def test_absolute_and_linked_paths_stay_inside(tmp_path: Path):
    """Absolute names and paths over links are those of the image's root."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    unpacker = LayerUnpacker(tmp_path / "root")
    unpacker.unpack(
        io.BytesIO(
            packed(
                file("/absolute", b"x"),
                directory("there"),
                link("link", "../../../there"),
                link("away", str(outside)),
                file("link/file", b"y"),
            )
        )
    )
    for entries in ([file("away/file", b"x")], [file("away/.wh..wh..opq")], [file("away/.wh.kept")]):
        with pytest.raises(BadImageError):
            unpacker.unpack(io.BytesIO(packed(*entries)))
    unpacker.close()
    root = tmp_path / "root"
    assert (root / "absolute").read_bytes() == b"x"
    assert (root / "there" / "file").read_bytes() == b"y"
    assert [path.name for path in outside.iterdir()] == ["kept"]


def test_devices_are_left_out(tmp_path: Path):
    """No device of an archive comes to be."""
    unpacker = LayerUnpacker(tmp_path / "root")
    unpacker.unpack(io.BytesIO(packed(device("null"), file("file"))))
    unpacker.close()
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["file"]


@pytest.mark.parametrize(("limits"), [{"most_bytes": 10}, {"most_entries": 1}])
def test_images_have_limits(tmp_path: Path, limits: Mapping[str, int]):
    """An image with more bytes or files than the limits is refused."""
    unpacker = LayerUnpacker(tmp_path / "root", **limits)
    with pytest.raises(BadImageError, match="larger than the limit"):
        unpacker.unpack(io.BytesIO(packed(file("a", b"12345"), file("b", b"678901"))))
    unpacker.close()


def without_digest(files: Mapping[str, bytes]) -> dict[str, bytes]:
    index = json.loads(files["index.json"])
    del index["manifests"][0]["digest"]
    return {**files, "index.json": json.dumps(index).encode()}


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("key", ["Config", "Layers"])
def test_files_outside_a_layout_are_refused(tmp_path: Path, key: str, absolute: bool):
    """A layout's directory leads to no files of the machine."""
    outside = tmp_path / "outside"
    outside.write_bytes(LAYERS[0] if key == "Layers" else b"{}")
    content = docker(LAYERS[:1])
    entries = json.loads(content["manifest.json"])
    name = str(outside) if absolute else "../outside"
    entries[0][key] = [name] if key == "Layers" else name
    content["manifest.json"] = json.dumps(entries).encode()
    for inside, each in content.items():
        (tmp_path / "image" / inside).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "image" / inside).write_bytes(each)
    with pytest.raises(BadImageError, match="leads out of"):
        ImageStore(tmp_path / "store").unpack(ImageSource(path=tmp_path / "image"), [])


def test_damaged_archives(tmp_path: Path):
    """An archive that is no image, or not the one of its digests, is refused with a reason and not kept."""
    good = layout(LAYERS)
    blob = next(name for name, content in good.items() if content == LAYERS[0])
    cases = [
        (b"nonsense", "no archive of an image"),
        (gzip.compress(b"nonsense"), "no archive of an image"),
        (archive_of({"other": b""}), "neither index.json nor manifest.json"),
        (archive_of({**good, "index.json": b"{"}), "no JSON"),
        (archive_of({**good, "index.json": b"[]"}), "manifests is missing"),
        (archive_of({name: each for name, each in good.items() if name != blob}), "is missing"),
        (archive_of({**good, blob: LAYERS[1]}), "unexpected commit digest"),
        (archive_of(layout([b"nonsense" * 100])), "failed to extract layer"),
        (archive_of(docker([LAYERS[0][:1026]])), "failed to extract layer"),
        (archive_of({**docker(LAYERS), "manifest.json": b"[]"}), "lists no image"),
        (gzip.compress(archive_of(good), mtime=0)[:40] + b"\xff" * 60, "cannot be unpacked|no archive"),
        (archive_of({**docker(LAYERS), "c.json": b"[]"}), "cannot be unpacked"),
        (archive_of({**docker(LAYERS), "c.json": b'{"config": {"Cmd": [1]}}'}), "Cmd of the image's"),
        (archive_of({**docker(LAYERS), "c.json": b'{"config": {"User": 7}}'}), "User of the image's"),
        (archive_of(without_digest(good)), "cannot be unpacked|is not supported"),
        (archive_of(docker([packed(file("a", mtime=1 << 80))])), "cannot be unpacked"),
        (archive_of(docker([packed(file("a" * (1 << 21)))])), "a header of"),
        (archive_of(docker([packed(file("é" * (1 << 20)))])), "a header of"),
        (packed(file("a" * (1 << 21))), "a header of"),
    ]
    store = ImageStore(tmp_path / "store")
    for content, why in cases:
        (tmp_path / "image").write_bytes(content)
        with pytest.raises(BadImageError, match=why):
            store.unpack(ImageSource(path=tmp_path / "image"), [])
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["lock"]

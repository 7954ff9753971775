"""Roots made of a program of the machine."""

import os
from pathlib import Path

import pytest

from kubeskew.kubelet.containers.host.images import programs
from kubeskew.kubelet.containers.host.images.image_config import BadImageError
from kubeskew.kubelet.containers.host.images.store import ImageSource, ImageStore


def test_a_program_and_its_libraries(tmp_path: Path):
    """The root has the program, the libraries that it is linked with, and the files that programs expect."""
    shell = Path("/bin/sh")
    image = ImageStore(tmp_path).unpack(ImageSource(program=shell), [])
    assert image.config.entrypoint == ["/bin/sh"]
    files = {str(path.relative_to(image.root)) for path in image.root.rglob("*") if path.is_file()}
    libraries = {str(library).lstrip("/") for library in programs.libraries(shell)}
    etc = {f"etc/{name}" for name in ("group", "hostname", "hosts", "passwd", "resolv.conf")}
    assert files == {"bin/sh"} | libraries | etc
    assert (image.root / "tmp").stat().st_mode & 0o7777 == 0o1777


def test_a_multi_call_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A multi-call program goes by the names of its applets, too, and runs a shell without a command."""
    program = tmp_path / "busybox"
    program.write_bytes(b"\x7fELF")
    outputs = {"--list-full": "bin/ash\nusr/bin/awk\nbin/busybox\n../bad\n"}
    monkeypatch.setattr(programs, "_output", lambda *command: outputs.get(command[-1], ""))
    config = programs.make_root(program, "busybox", tmp_path / "root")
    assert config.command == ["sh"]
    found = {
        str(path.relative_to(tmp_path / "root")) for path in (tmp_path / "root").rglob("*") if path.is_file()
    }
    assert found >= {"bin/ash", "bin/busybox", "usr/bin/awk", "bin/awk"}
    assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize(("content", "why"), [(b"#!/bin/sh\n", "no ELF file"), (None, "no such file")])
def test_what_is_no_program(tmp_path: Path, content: bytes | None, why: str):
    """A script or a missing file is refused with a reason."""
    if content is not None:
        (tmp_path / "program").write_bytes(content)
    with pytest.raises(BadImageError, match=why):
        ImageStore(tmp_path / "store").unpack(ImageSource(program=tmp_path / "program"), [])


def test_a_root_is_open_to_all_users(tmp_path: Path):
    """Containers run as any user, so a strict umask of the kubelet must not close the root of an image."""
    before = os.umask(0o077)
    try:
        image = ImageStore(tmp_path).unpack(ImageSource(program=Path("/bin/sh")), [])
    finally:
        os.umask(before)
    modes = {name: (image.root / name).stat().st_mode & 0o7777 for name in ("", "bin", "etc", "etc/passwd")}
    assert modes == {"": 0o755, "bin": 0o755, "etc": 0o755, "etc/passwd": 0o644}
    assert (image.root / "root").stat().st_mode & 0o7777 == 0o700

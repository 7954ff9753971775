"""Directories of plugins become links to those of a real kubelet, while drivers begin to use them."""

import errno
from pathlib import Path

import pytest

from kubeskew.shim import node


def test_sockets_that_are_there_go_along(tmp_path):
    """Sockets of a driver that has begun are found at the kubelet's directory, and by the old path."""
    there, own = tmp_path / "registry", tmp_path / "own"
    there.mkdir()
    own.mkdir()
    (there / "driver.sock").touch()
    node._lead(there, own)
    assert there.readlink() == own
    assert [each.name for each in own.iterdir()] == ["driver.sock"]


@pytest.mark.parametrize("meddling", ["makes it again", "puts a socket in"])
def test_a_driver_that_starts_beside_is_no_failure(tmp_path, monkeypatch, meddling):
    """A directory that a driver makes again, or fills, while it is replaced is replaced at the next try."""
    there, own = tmp_path / "registry", tmp_path / "own"
    there.mkdir()
    own.mkdir()
    remove, removed = Path.rmdir, []

    def rmdir(path):
        removed.append(path)
        if len(removed) == 1 and meddling == "puts a socket in":
            (path / "late.sock").touch()
        remove(path)
        if len(removed) == 1 and meddling == "makes it again":
            path.mkdir()

    monkeypatch.setattr(Path, "rmdir", rmdir)
    node._lead(there, own)
    assert there.readlink() == own
    assert len(removed) == 2


def test_a_disk_that_refuses_is_told_at_once(tmp_path, monkeypatch):
    """An error that no driver causes ends it without another try."""
    there, own = tmp_path / "registry", tmp_path / "own"
    there.mkdir()
    own.mkdir()
    tries = []

    def rmdir(path):
        tries.append(path)
        raise OSError(errno.EROFS, "read-only")

    monkeypatch.setattr(Path, "rmdir", rmdir)
    with pytest.raises(OSError, match="read-only"):
        node._lead(there, own)
    assert len(tries) == 1

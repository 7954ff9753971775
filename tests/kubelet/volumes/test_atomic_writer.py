"""Files of a volume change in one step, and only where they may."""

import os
import stat

import pytest

from kubeskew.kubelet.containers.environment import ConfigError
from kubeskew.kubelet.volumes.atomic_writer import AtomicWriter, FileProjection
from kubeskew.kubelet.volumes.files import VolumeFiles

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("", 'invalid path: must not be empty: ""'),
        ("/a", "invalid path: must be relative path: /a"),
        ("a/../b", "invalid path: must not contain '..': a/../b"),
        ("..a", "invalid path: must not start with '..': ..a"),
        ("x" * 256, "invalid path: filenames must be less than or equal to 255 characters"),
        ("/".join(["x" * 200] * 21), "invalid path: must be less than or equal to 4096 characters"),
    ],
)
async def test_paths_that_may_not_be(tmp_path, clock, entropy, path, text):
    """No file may lie outside of the volume, or be taken for one of the writer's own."""
    writer = AtomicWriter(VolumeFiles(), tmp_path, clock, entropy, owns_links=False)
    with pytest.raises(ConfigError) as caught:
        writer.write({path: FileProjection(b"", 0o644)}, lambda: None)
    assert str(caught.value) == text
    assert list(tmp_path.iterdir()) == []


async def test_rests_of_an_earlier_kubelet(tmp_path, clock, entropy):
    """A link that a killed kubelet left behind does not stop the next one."""
    (tmp_path / "..data_tmp").symlink_to("nowhere")
    writer = AtomicWriter(VolumeFiles(), tmp_path, clock, entropy, owns_links=False)
    assert writer.write({"a/b": FileProjection(b"x", 0o600)}, lambda: None)
    assert not writer.write({"a/b": FileProjection(b"x", 0o600)}, lambda: None)
    assert (tmp_path / "a/b").read_text() == "x"
    assert sorted(path.name[:6] for path in tmp_path.iterdir()) == sorted(
        ["..data", "a", str((tmp_path / "..data").readlink())[:6]]
    )


async def test_permissions_are_set_before_files_are_seen(tmp_path, clock, entropy):
    """The new files get their group while the old ones are still in place."""
    writer = AtomicWriter(VolumeFiles(), tmp_path, clock, entropy, owns_links=False)
    writer.write({"a": FileProjection(b"1", 0o600)}, lambda: None)
    seen = []
    writer.write({"a": FileProjection(b"2", 0o600)}, lambda: seen.append((tmp_path / "a").read_text()))
    assert (seen, (tmp_path / "a").read_text()) == (["1"], "2")


async def test_directories_are_open_to_all_users(tmp_path, clock, entropy):
    """A container of any user reads files below directories, whatever the mask of the kubelet is."""
    writer = AtomicWriter(VolumeFiles(), tmp_path, clock, entropy, owns_links=False)
    before = os.umask(0o077)
    try:
        writer.write({"a/b": FileProjection(b"x", 0o644)}, lambda: None)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o755

"""The directories of pods that are gone."""

import pytest

pytestmark = pytest.mark.looptime


@pytest.fixture
async def orphan(volume_node):
    """A pod of which its kubelet knows nothing any longer; the directory of its volumes."""
    volumes = [{"name": "e", "emptyDir": {}}, {"name": "m", "emptyDir": {"medium": "Memory"}}]
    paths = await volume_node.set_up(volume_node.pod(*volumes))
    for path in paths.values():
        (path / "f").write_text("x")
    volume_node.start()
    return volume_node.directory / "kubelet/pods/uid-p/volumes", paths["m"]


async def test_orphans_are_removed(volume_node, orphan):
    """A restarted kubelet removes what is left of pods that went meanwhile, and nothing of others."""
    volumes, memory = orphan
    pod = volume_node.pod({"name": "v", "emptyDir": {}}, name="q")
    pod["metadata"]["uid"] = "uid-q"
    await volume_node.manager.set_up(pod)
    cleaner = volume_node.volumes.orphans
    assert cleaner.remove(cleaner.find({"uid-q"})) == []
    assert not volumes.parent.exists()
    assert not memory.exists()
    assert (volumes.parent.parent / "uid-q").is_dir()


@pytest.mark.parametrize(("version", "verb"), [("1.36", "remove"), ("1.35", "rmdir()")])
async def test_data_is_not_removed(volume_node, orphan, version, verb):
    """Volumes of others' plugins and subpaths are only removed empty; the errors are worded as upstream's."""
    volume_node.start(version)
    volumes, _ = orphan
    for name in ("empty", "full/f"):
        (volumes / "kubernetes.io~nfs" / name).mkdir(parents=True)
    (volumes.parent / "volume-subpaths/v/c/0/x").mkdir(parents=True)
    path = "/var/lib/kubelet/pods/uid-p"
    assert volume_node.volumes.orphans.remove(["uid-p"]) == [
        f'orphaned pod "uid-p" found, but {text}'
        for text in (
            f"failed to rmdir() volume at path {path}/volumes/kubernetes.io~nfs/full: directory not empty",
            f"failed to {verb} subpath at path {path}/volume-subpaths/v/c/0: directory not empty",
        )
    ]
    assert not (volumes / "kubernetes.io~nfs/empty").exists()
    assert (volumes / "kubernetes.io~nfs/full/f").is_dir()


async def test_files_among_volumes_stay(volume_node, orphan):
    """A file where only directories may be stops the removal."""
    volumes, _ = orphan
    (volumes / "file").write_text("x")
    [error] = volume_node.volumes.orphans.remove(["uid-p"])
    assert error == (
        'orphaned pod "uid-p" found, but error occurred during reading volume dir from disk: could not read '
        "directory /var/lib/kubelet/pods/uid-p/volumes/file: not a directory"
    )
    assert (volumes / "file").exists()

"""The copies of images that containers without namespaces have for a root."""

from pathlib import Path

from kubeskew.kubelet.containers.host import plain_root


def test_links_of_an_image_lead_to_nothing_new(tmp_path: Path):
    """Neither a mount nor a working directory makes directories outside by a link of the image."""
    outside, lower, layer = (tmp_path / name for name in ("outside", "lower", "layer"))
    for directory in (outside, lower, layer):
        directory.mkdir()
    (lower / "link").symlink_to(outside)
    root = layer / "root"
    mounts = [
        {"target": "/link/a/b", "source": str(tmp_path)},
        {"target": "/in/side", "source": str(tmp_path)},
    ]
    plain_root.build({"layer": str(layer), "lower": str(lower), "cwd": f"{root}/link/w/x", "mounts": mounts})
    assert [*outside.iterdir()] == []
    assert (root / "in" / "side").readlink() == tmp_path

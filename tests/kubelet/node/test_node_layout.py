"""The directories of a node."""

from pathlib import Path

from kubeskew.kubelet.node.config import NodeLayout


def test_paths_of_sockets_stay_short_however_the_node_is_called():
    """A name that fits below upstream's registry, a rolling update's UID in it, fits into 107 bytes."""
    layout = NodeLayout.under(Path("/state"), "n" * 63, Path("/tmp/ks-12345678"))
    uid = "3f9e2c52-6ef0-4d0c-9e6e-2f5f9f0e1a11"
    assert len(str(layout.registry / f"compute-domain.nvidia.com-{uid}-reg.sock")) <= 107
    assert len(str(layout.registry)) <= len("/var/lib/kubelet/plugins_registry")
    assert len(str(layout.plugins)) <= len("/var/lib/kubelet/plugins_registry")
    assert layout.cdi == Path("/state") / ("n" * 63) / "cdi"


def test_nodes_have_directories_of_their_own():
    """Names that begin alike do not meet."""
    root = Path("/state")
    found = {NodeLayout.under(root, f"worker-of-zone-{n}", Path("/s")).registry for n in range(500)}
    assert len(found) == 500
    assert NodeLayout.under(root, "node-1", Path("/s")).registry == Path("/s/node-1/registry")


def test_without_a_short_directory_sockets_lie_with_the_state(tmp_path):
    """A kubelet on its own has them where upstream has them; `make` makes them."""
    layout = NodeLayout.under(tmp_path, "node-1")
    layout.make()
    names = {path.name for path in (tmp_path / "node-1" / "kubelet").iterdir()}
    assert names == {"plugins", "plugins_registry", "device-plugins", "pod-resources"}
    assert layout.cdi.is_dir()

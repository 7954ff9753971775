"""The sockets that plugins in containers name."""

from pathlib import Path

from kubeskew.kubelet.plugins.registration import located


def test_upstreams_path_leads_to_the_node(tmp_path: Path):
    """A socket below /var/lib/kubelet/plugins is the node's, if it is there; any other is as it is named."""
    registry, plugins = tmp_path / "registry", tmp_path / "plugins" / "d.example.com"
    plugins.mkdir(parents=True)
    (plugins / "dra.sock").touch()
    socket = str(registry / "d.example.com-reg.sock")
    named = "/var/lib/kubelet/plugins/d.example.com"
    assert located(f"{named}/dra.sock", socket) == str(plugins / "dra.sock")
    assert located(f"{named}/other.sock", socket) == f"{named}/other.sock"
    assert located("/run/dra.sock", socket) == "/run/dra.sock"
    assert located("", socket) == ""

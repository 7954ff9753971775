"""Device plugins of the local cluster: their components, files and switches, and when they are ready."""

import json
from types import SimpleNamespace

import pytest

from kubeskew.cluster import config, creation, driver_accounts, drivers, launcher, readiness
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.state import StateDir

GPU = "example.com/gpu"
CLUSTER = {
    "nodes": [
        {"name": "plugged", "devicePlugins": [{"resource": GPU, "devices": 2, "deviceName": "card"}]},
        {
            "name": "both",
            "devicePlugins": [{"resource": GPU}],
            "drivers": [{"name": "gpu.example.com", "devices": 1}],
        },
    ]
}


@pytest.fixture
def state(ports):
    found = creation.plan(config.parse(CLUSTER, "test"), ports)
    found.runtime_dir = "/run/ks"
    return found


@pytest.fixture
def process(state):
    return state.processes[f"driver/{GPU}"]


def test_a_resource_is_a_component(state, process, tmp_path):
    """One process for all nodes that have it, reported to be a device plugin; drivers stay drivers."""
    directory = StateDir(tmp_path)
    assert [each.name for each in state.of_kind("driver")] == [f"driver/{GPU}", "driver/gpu.example.com"]
    assert "--device-plugin" in launcher.arguments(directory, state, process)
    other = state.processes["driver/gpu.example.com"]
    assert "--driver-name" in launcher.arguments(directory, state, other)
    assert [path for path, _ in driver_accounts._accounts(["d"])][1:] == [
        "/api/v1/namespaces/kube-system/serviceaccounts",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    ]


def test_its_file_reports_nodes_and_switches(state, process, tmp_path):
    """The plugin's file names each node's socket directory, its number of devices and its switches."""
    drivers.switch(state, GPU, ["both"], {"vanish": True})
    drivers.write_file(StateDir(tmp_path), state, process)
    written = json.loads((tmp_path / "nodes" / f"driver/{GPU}.json").read_text())
    plugged, both = written["nodes"]
    assert (plugged["name"], plugged["devices"], plugged["deviceName"]) == ("plugged", 2, "card")
    assert plugged["devicePluginsDir"] == "/run/ks/plugged/device-plugins"
    assert (plugged["switches"], both["switches"]) == ({}, {"vanish": True})
    assert written["revision"] == 1


def test_only_nodes_that_have_it_can_be_switched(state):
    """A node without the plugin is named."""
    with pytest.raises(UserError, match="node both does not have the driver"):
        drivers.switch(state, "other.com/x", ["both"], {"vanish": True})


def entry(*, shown=True, registered=True, healths=("Healthy", "Unhealthy")):
    devices = {f"gpu-{number}": health for number, health in enumerate(healths)}
    return {"shown": shown, "registered": registered, "devices": devices}


@pytest.mark.parametrize(
    ("reported", "capacity", "allocatable", "ready"),
    [
        (entry(), "2", "1", True),
        (entry(), "2", "2", False),
        (entry(), None, None, False),
        (entry(registered=False), "2", "1", False),
        (entry(shown=False, registered=False), "2", "0", True),
        (entry(shown=False, registered=False), None, None, True),
        (entry(shown=False, registered=False), "2", "2", False),
    ],
)
async def test_ready_is_what_the_nodes_show(state, process, reported, capacity, allocatable, ready):
    """A plugin that is there is in its nodes' statuses; one that vanished leaves nothing to give."""
    amounts = {"capacity": {GPU: capacity}, "allocatable": {GPU: allocatable}} if capacity else {}
    nodes = {"items": [{"metadata": {"name": "plugged"}, "status": amounts}]}
    pages = {"/driver": {"resource": GPU, "revision": 0, "nodes": {"plugged": reported, "gone": entry()}}}
    state.killed_nodes = ["gone"]

    async def page(url):
        return next((body for path, body in pages.items() if url.endswith(path)), nodes)

    async def missing(_process):
        return ""

    def server_of(state, _component=""):
        return state.of_kind("apiserver")[0]

    probes = SimpleNamespace(json=page, missing=missing, server_of=server_of)
    lacking = await readiness.missing_of_driver(probes, state, process)
    assert lacking == ("" if ready else "its devices are not in the status of: plugged")

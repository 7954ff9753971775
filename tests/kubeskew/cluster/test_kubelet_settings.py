"""Settings and files of kubelets, as an operator changes them."""

import pytest
import yaml

from kubeskew.cluster import kubelet_files, launcher
from kubeskew.cluster.config import NodeSpec, parse
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.kubelet_files import kubelet_files_at
from kubeskew.cluster.state import Process, State, StateDir
from kubeskew.kubelet.journal import JournalledFiles
from kubeskew.kubelet.node.config import SETTINGS_KEYS, load_nodes


def node(text):
    """Returns the node of a cluster file."""
    return parse({"nodes": [yaml.safe_load(text)]}, "file").nodes[0]


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("{name: n}", {}),
        ("{cpuManagerPolicy: none}", {"cpuManagerPolicy": "none"}),
        ("{cpuManagerPolicy: static}", {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "1"}}),
        (
            "{cpuManagerPolicy: static, memoryManagerPolicy: Static}",
            {
                "cpuManagerPolicy": "static",
                "memoryManagerPolicy": "Static",
                "kubeReserved": {"cpu": "1", "memory": "1Gi"},
            },
        ),
        (
            "{cpuManagerPolicy: static, kubeReserved: {cpu: 500m}}",
            {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "500m"}},
        ),
        ("{kubeReserved: {}}", {"kubeReserved": {}}),
    ],
)
def test_policies_have_the_reserve_that_they_need(text, settings):
    """A node with a static policy reserves what a kubelet needs to start with it, unless the file says."""
    assert node(text).settings == settings


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{cpuManagerPolicy: statik}", "cpuManagerPolicy: expected none or static, found 'statik'"),
        ("{memoryManagerPolicy: static}", "memoryManagerPolicy: expected None or Static, found 'static'"),
        ("{kubeReserved: {gpu: 1}}", "kubeReserved: unknown key 'gpu'; known are cpu, memory"),
        ("{kubeReserved: {cpu: one}}", "kubeReserved.cpu: quantities must match"),
    ],
)
def test_settings_that_no_kubelet_has(text, error):
    """A mistake is reported with its place."""
    with pytest.raises(UserError, match=error):
        node(text)


@pytest.fixture
def directory(tmp_path):
    return StateDir(tmp_path)


@pytest.fixture
def state():
    spec = node("{name: node-1, cpuManagerPolicy: static}")
    return State({}, nodes={"node-1": spec.as_json()})


def test_settings_come_to_the_kubelet(directory, state):
    """The kubelet's nodes file has the settings, and after a change the new ones."""
    process = Process("kubelet-1", "kubelet", "1.36", {}, nodes=["node-1"])

    def config():
        launcher.write_nodes_file(directory, state, process)
        (found,) = load_nodes(directory.nodes_file("kubelet-1"))
        return found.cpu_manager_policy, found.memory_manager_policy, dict(found.kube_reserved)

    assert config() == ("static", "None", {"cpu": "1"})
    kubelet_files.configure_kubelet(directory, state, "node-1", {"cpuManagerPolicy": "none"})
    assert config() == ("none", "None", {"cpu": "1"})
    assert NodeSpec.from_json(directory.load().nodes["node-1"]).settings["cpuManagerPolicy"] == "none"


def test_files_are_removed_for_the_journal_too(directory, state):
    """A file that an operator removes is none of the node's from then on."""
    root = directory.kubelet_root() / "node-1"
    files = JournalledFiles(root, lambda: 5)
    for name in ("cpu_manager_state", "memory_manager_state"):
        files.write(root / "kubelet" / name, b"{}")
    kubelet_files.remove_kubelet_files(directory, state, "node-1", ["cpu_manager_state"])
    assert sorted(kubelet_files_at(directory, 5)["node-1"]) == ["kubelet/memory_manager_state"]
    assert not (root / "kubelet" / "cpu_manager_state").exists()


@pytest.mark.parametrize(
    ("name", "files", "error"),
    [
        ("node-2", ["cpu_manager_state"], "there is no node node-2; there are node-1"),
        ("node-1", ["there", "dra"], "kubelet/node-1 has no file dra; it has there"),
        ("node-1", ["there", "../runtime/x"], "is no file below the kubelet's root directory"),
    ],
)
def test_what_cannot_be_removed(directory, state, name, files, error):
    """A file that is not there, or not the kubelet's, leaves all as it was."""
    there = directory.kubelet_root() / "node-1" / "kubelet" / "there"
    there.parent.mkdir(parents=True)
    there.write_text("{}")
    with pytest.raises(UserError, match=error):
        kubelet_files.remove_kubelet_files(directory, state, name, files)
    assert there.exists()


def test_settings_of_a_node_that_is_none(directory, state):
    """Nothing is changed for a node that the cluster does not have."""
    with pytest.raises(UserError, match="there is no node node-2"):
        kubelet_files.configure_kubelet(directory, state, "node-2", {})
    assert SETTINGS_KEYS == (
        "cpuManagerPolicy",
        "memoryManagerPolicy",
        "topologyManagerScope",
        "kubeReserved",
    )

"""A cluster whose pods are processes of the machine has their network as a component."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from real_programs import write_program

from kubeskew.apimachinery.client.refs import (
    ENDPOINT_SLICES,
    NAMESPACES,
    NETWORK_POLICIES,
    PODS,
    SERVICES,
)
from kubeskew.apimachinery.client.refs import (
    NODES as NODE_OBJECTS,
)
from kubeskew.cluster import creation, launcher
from kubeskew.cluster.config import ClusterSpec, NodeSpec
from kubeskew.cluster.controlplane import addons
from kubeskew.cluster.ports import HeldPorts
from kubeskew.cluster.state import State, StateDir

NODES = (NodeSpec("a", settings={"runtime": "host"}), NodeSpec("b"))


def _planned(**changed) -> State:
    with HeldPorts() as ports:
        state = creation.plan(replace(ClusterSpec(nodes=NODES), **changed), ports)
    state.runtime_dir = "/tmp/ks-test"
    return state


def test_only_where_programs_run(tmp_path):
    """Other clusters have no such component, and their API servers and nodes know of none."""
    state = _planned(nodes=(NodeSpec("b"),))
    assert "network" not in state.processes
    assert state.network_socket == ""
    server = launcher.arguments(StateDir(tmp_path), state, state.processes["apiserver"])
    assert not {"--network-agent", "--service-account-jwks-uri"} & {*server}


def test_arguments(tmp_path):
    """Component and API server have the same socket; services of the cluster's processes are outside."""
    directory, state = StateDir(tmp_path), _planned(metrics=True)
    port = state.processes["metrics-server"].port
    found = launcher.arguments(directory, state, state.processes["network"])
    assert found[0] == "network"
    assert found[found.index("--socket") + 1] == "/tmp/ks-test/network.sock"
    assert found[found.index("--outside") + 1] == f"kube-system/metrics-server=127.0.0.2:{port}"
    server = launcher.arguments(directory, state, state.processes["apiserver"])
    assert server[server.index("--network-agent") + 1] == "/tmp/ks-test/network.sock"
    keys = server[server.index("--service-account-jwks-uri") + 1]
    assert keys == "https://kubernetes.default.svc.cluster.local/openid/v1/jwks"


def test_real_servers(tmp_path):
    """The shim of a real API server has the socket."""
    write_program(tmp_path / "1.36" / "kube-apiserver")
    state = _planned(binaries=str(tmp_path), real=("apiserver",))
    directory = StateDir(tmp_path / "state")
    directory.pki.mkdir(parents=True)
    creation.write_credentials(directory, state, datetime.now(UTC))
    content = launcher.shim_file(directory, state, state.processes["apiserver"])
    assert content["server"]["network"] == "/tmp/ks-test/network.sock"


@pytest.mark.parametrize("has_network", [True, False])
def test_addresses_of_nodes(tmp_path, has_network):
    """Each node has the network's socket, and a range of its own for its pods."""
    directory = StateDir(tmp_path)
    state = _planned(**({} if has_network else {"nodes": (NodeSpec("a"), NodeSpec("b"))}))
    (process,) = state.of_kind("kubelet")
    directory.nodes_file(process.name).parent.mkdir()
    launcher.write_nodes_file(directory, state, process)
    nodes = json.loads(directory.nodes_file(process.name).read_text())["nodes"]
    expected = ["10.244.0.0/24", "10.244.1.0/24"] if has_network else [None, None]
    assert [node.get("podCIDR") for node in nodes] == expected
    assert {node.get("network") for node in nodes} == {state.network_socket or None}


def test_rights():
    """The component reads what it follows, and nothing else."""
    role, binding = addons.network_objects()
    read = {
        (group, resource)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    followed = (SERVICES, ENDPOINT_SLICES, NODE_OBJECTS, PODS, NAMESPACES, NETWORK_POLICIES)
    assert read == {(ref.group, ref.plural) for ref in followed}
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"list", "watch"}
    assert [subject["name"] for subject in binding["subjects"]] == [creation.NETWORK_USER]

"""Kubelets that are real programs: one process for each node, its configuration, and what it needs."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from real_programs import write_program

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster import config, creation, launcher
from kubeskew.cluster.change_plan import Target
from kubeskew.cluster.cluster import Cluster
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.platform import Platform
from kubeskew.cluster.ports import HeldPorts
from kubeskew.cluster.processes import ExecutedProcesses
from kubeskew.cluster.programs import kubelets
from kubeskew.cluster.programs.inspection import Program
from kubeskew.cluster.programs.selection import Choice
from kubeskew.cluster.state import StateDir
from kubeskew.kubelet.features import ConfigurationFeatures, KubeletFeatures
from kubeskew.kubelet.node.config import node_config
from kubeskew.shim import mount_namespace

NODE = {"name": "a", "labels": {"zone": "x"}, "capacity": {"pods": "20"}}


def features_of(minor: int) -> ConfigurationFeatures:
    return KubeletFeatures.of(FeatureGates(Version(minor))).configuration


@pytest.fixture
def spec(tmp_path):
    """A cluster of 1.36 whose first kubelet is a real program."""
    binary = write_program(tmp_path / "kubelet", "v1.36.3")
    file = {
        "version": "1.36",
        "nodes": [NODE, {"name": "b"}, {"name": "c"}],
        "components": {"kubelet/a": {"binary": str(binary), "args": ["--v=4"]}},
    }
    return config.parse(file, "cluster.yaml")


@pytest.fixture
def state(spec):
    with HeldPorts() as ports:
        return creation.plan(spec, ports)


def test_a_real_kubelet_has_a_process_of_its_own(state):
    """Emulated ones of a version share theirs."""
    hosting = {
        process.name: (process.nodes, str(process.program or "")) for process in state.of_kind("kubelet")
    }
    assert hosting == {"kubelet-1": (["a"], "kubelet v1.36.3"), "kubelet-2": (["b", "c"], "")}


def test_a_node_that_becomes_real_leaves_the_others(state):
    """And joins them again once it is emulated."""
    program = Choice(Program(state.processes["kubelet-1"].program.path, "v1.36.3"))
    state.processes["kubelet-2"].nodes = ["b"]
    with HeldPorts() as ports:
        target = Target(Version(36), {})
        assert creation.host(state, ports, "c", target, program).nodes == ["c"]
        state.processes["kubelet-3"].nodes = []
        assert creation.host(state, ports, "c", target).nodes == ["b", "c"]


def test_the_shim_of_a_kubelet(state, tmp_path):
    """The kubelet has a namespace of its own and the node's credentials; the shim serves its runtime."""
    directory = StateDir(tmp_path / "state")
    (tmp_path / "state").mkdir()
    state.runtime_dir = str(tmp_path / "ks")
    process = state.processes["kubelet-1"]
    arguments = launcher.arguments(directory, state, process)
    found = launcher.shim_file(directory, state, process)

    assert arguments[arguments.index("--component") + 1] == "kubelet/a"
    assert arguments[arguments.index("--kubeconfig") + 1].endswith("kubeconfigs/system:node:a")
    (program,) = found["processes"]
    kubelet = tmp_path / "state" / "kubelet" / "a" / "kubelet"
    assert program["wrapper"] == mount_namespace.command(
        *(kubelet, kubelet.parent / "log", kubelet.parent / "machine")
    )
    flags = dict(argument.split("=", 1) for argument in program["args"])
    assert (flags["--root-dir"], flags["--hostname-override"]) == ("/var/lib/kubelet", "a")
    assert (flags["--node-labels"], flags["--v"]) == ("zone=x", "4")
    assert found["health"] == f"https://127.0.0.1:{process.program.port}"
    assert found["node"]["criSocket"] == str(tmp_path / "ks" / "a" / "cri.sock")
    written = yaml.safe_load(Path(flags["--config"]).read_text())
    assert written["tlsCertFile"].endswith("program-kubelet-1.crt")
    assert written["authentication"]["x509"] == {"clientCAFile": str(directory.ca)}
    assert (written["port"], written["maxPods"]) == (process.program.port, 20)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({}, {"cpuManagerPolicy": "none", "memoryManagerPolicy": "None", "maxPods": 110}),
        ({"taints": [{"key": "k", "effect": "NoSchedule"}]}, {"registerWithTaints": [
            {"key": "k", "effect": "NoSchedule"}
        ]}),
        (
            {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "1"}},
            {"cpuManagerPolicy": "static", "kubeReserved": {"cpu": "1"}},
        ),
        (
            {"memoryManagerPolicy": "Static", "kubeReserved": {"memory": "1Gi"}},
            {"reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}]},
        ),
        ({"topologyManagerScope": "pod"}, {"topologyManagerScope": "pod"}),
    ],
)  # fmt: skip
def test_settings_of_a_node_are_in_the_configuration(entry, expected):
    """With upstream's names."""
    found = kubelets.configuration(node_config({"name": "a", **entry}), 1, features_of(36), "/cri.sock")
    assert {name: found[name] for name in expected} == expected


def test_fields_that_older_kubelets_do_not_have_are_left_out():
    """1.30 ends at a field that it does not know."""
    node = node_config({"name": "a"})
    fields = [kubelets.configuration(node, 1, features_of(minor), "/cri.sock") for minor in (30, 31)]
    assert ["failCgroupV1" in each for each in fields] == [False, True]


@pytest.mark.parametrize(
    ("what", "value", "reason"),
    [
        ("refusal", lambda: "a user namespace: No space left on device", "needs root, or a user namespace"),
        ("_may_mount", lambda: False, "CAP_SYS_ADMIN is missing"),
        ("_has_cgroups", lambda: False, "needs cgroups"),
        ("machine_address", lambda: "", "needs an address of the machine"),
        ("ROOT", "/proc/none", "needs the directory /proc/none"),
    ],
)
def test_the_reason_why_no_real_kubelet_can_run_here(monkeypatch, what, value, reason):
    """It is one line, and names the page that says more."""
    ways = {"geteuid": lambda: 0, "_may_mount": lambda: True, "_has_cgroups": lambda: True}
    ways |= {"machine_address": lambda: "192.0.2.1", "ROOT": "/", what: value}
    if "refusal" in ways:
        ways["geteuid"] = lambda: 1000
        monkeypatch.setattr(kubelets.mount_namespace, "refusal", ways.pop("refusal"))
    monkeypatch.setattr(kubelets.os, "geteuid", ways.pop("geteuid"))
    for name, way in ways.items():
        monkeypatch.setattr(kubelets, name, way)
    found = kubelets.obstacle()
    assert reason in found
    assert found.endswith(": see docs/how-to/real.md")
    assert "\n" not in found


def test_a_kubelet_without_root_knows_that_it_has_a_user_namespace(monkeypatch):
    """Its configuration has the gate, so that what it may not do there does not end it."""
    node, gate = node_config({"name": "a"}), {"KubeletInUserNamespace": True}
    for user, gates in ((0, None), (1000, gate)):
        monkeypatch.setattr(kubelets.os, "geteuid", lambda user=user: user)
        assert kubelets.configuration(node, 1, features_of(36), "/cri.sock").get("featureGates") == gates
    monkeypatch.setattr(kubelets, "_has_cgroups", lambda: True)
    monkeypatch.setattr(kubelets, "machine_address", lambda: "192.0.2.1")
    monkeypatch.setattr(kubelets.mount_namespace, "refusal", lambda: "")
    monkeypatch.setattr(kubelets, "ROOT", "/proc/none")  # is made in the namespace, not here
    assert kubelets.obstacle() == ""


async def test_a_cluster_does_not_start_where_its_kubelet_cannot(spec, tmp_path):
    """Nothing is written then."""
    platform = replace(Platform(SystemClock(), ExecutedProcesses()), kubelet_obstacle=lambda: "no root")
    with pytest.raises(UserError, match=r"^kubelet/a: no root$"):
        await Cluster(StateDir(tmp_path / "state"), platform, lambda _: None).up(spec)
    assert not (tmp_path / "state").exists()


def test_the_control_planes_pods_are_files(spec, tmp_path):
    """Those of a node that shows none are removed."""
    directory = StateDir(tmp_path / "state")
    (tmp_path / "state").mkdir()
    with HeldPorts() as ports:
        state = creation.plan(spec, ports)
    folder = kubelets.layout_of(directory, state, "a").kubelet / "manifests"
    state.nodes["a"]["controlPlane"] = True
    process = state.processes["kubelet-1"]
    launcher.write_nodes_file(directory, state, process)
    names = [
        f"{name}.yaml" for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    ]
    assert sorted(file.name for file in folder.iterdir()) == names
    state.nodes["a"]["controlPlane"] = False
    launcher.write_nodes_file(directory, state, process)
    assert [*folder.iterdir()] == []


def test_a_namespace_of_mounts(tmp_path):
    """A kubelet finds its node's directories there, and settings that are not the machine's."""
    root, logs = tmp_path / "kubelet", tmp_path / "log"
    script = (
        "cat /var/lib/kubelet/hello /proc/sys/kernel/panic; echo x > /proc/sys/kernel/panic; ls /var/log; "
        "cat /proc/meminfo"
    )
    machine = tmp_path / "machine"
    command = [*mount_namespace.command(root, logs, machine), str(os.getpid()), "/bin/sh", "-c", script]
    machine.mkdir()
    (machine / "meminfo").write_text("MemTotal: 1024 kB\n")
    root.mkdir()
    (root / "hello").write_text("hello\n")
    logs.mkdir()
    (logs / "pods").mkdir()
    panic = Path("/proc/sys/kernel/panic")
    before, obstacle = panic.read_text(), kubelets.obstacle()
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    if obstacle:
        assert (done.returncode, done.stderr.count("\n")) == (126, 1)
        assert done.stderr.startswith("kubeskew: cannot run /bin/sh: ")
    else:
        assert done.stdout.split() == ["hello", "10", "pods", "MemTotal:", "1024", "kB"]
    assert panic.read_text() == before


def test_a_program_ends_with_the_process_that_it_belongs_to(tmp_path):
    """One that has lost it already does not begin."""
    command = [*mount_namespace.command(*map(tmp_path.joinpath, "klm")), "1", "/bin/true"]
    assert subprocess.run(command, capture_output=True, timeout=20).returncode == 137


def test_a_kubelet_sees_the_processors_and_the_memory_of_its_node(state, tmp_path):
    """A capacity of less than a processor is one. Huge pages are there in both sizes, if only none of them,
    for the memory manager compares its file with what it finds."""
    layout = kubelets.layout_of(StateDir(tmp_path / "state"), state, "a")
    entry = {"name": "a", "capacity": {"cpu": "4", "memory": "8Gi"}}
    machine = kubelets.write_machine(layout, node_config(entry))
    assert (machine / "online").read_text() == "0-3\n"
    assert (machine / "meminfo").read_text().startswith("MemTotal:       8388608 kB\n")
    assert len([*machine.glob("node/node0/cpu*/topology/core_id")]) == 4
    machine = kubelets.write_machine(layout, node_config({"name": "a", "capacity": {"cpu": "500m"}}))
    assert (machine / "online").read_text() == "0-0\n"
    assert len([*machine.glob("node/node0/cpu*")]) == 1
    huge_pages = {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "64Mi"}
    machine = kubelets.write_machine(layout, node_config({"name": "a", "capacity": huge_pages}))
    for place in (machine, machine / "node" / "node0"):
        pages = {file.parent.name: file.read_text() for file in place.glob("hugepages/*/nr_hugepages")}
        assert pages == {"hugepages-1048576kB": "0\n", "hugepages-2048kB": "32\n"}


IN_A_NAMESPACE = """
import importlib.util, sys

file, place, *arguments = sys.argv[1:]
spec = importlib.util.spec_from_file_location("mount_namespace", file)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module._ROOT, module._PLACES, module._SETTINGS = place, {}, {}
module.main(arguments)
"""


@pytest.mark.skipif(bool(mount_namespace.refusal()), reason="needs a mount namespace")
def test_what_lies_beside_the_root_of_a_kubelet_stays_there(tmp_path):
    """The cluster itself, where a user's home is below /var/lib, and the kubelet's program."""
    home = tmp_path / "lib" / "ci"
    home.mkdir(parents=True)
    (tmp_path / "lib" / "file").write_text("a file")
    (tmp_path / "lib" / "link").symlink_to("ci/program")
    (tmp_path / "lib" / "kubelet").symlink_to("nowhere")
    program = home / "program"
    program.write_text('#!/bin/sh\ncd "$1"\nls\ncat file link > kubelet/copy\necho new > ci/new\n')
    program.chmod(0o700)
    root, logs, place = home / "a" / "kubelet", home / "a" / "log", tmp_path / "lib" / "kubelet"
    command = [sys.executable, "-I", "-c", IN_A_NAMESPACE, mount_namespace.__file__, place]
    arguments = [root, logs, home / "machine", str(os.getpid()), program, place.parent]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)

    assert (done.stderr, done.stdout.split()) == ("", ["ci", "file", "kubelet", "link"])
    assert (root / "copy").read_text() == "a file" + program.read_text()
    assert (home / "new").read_text() == "new\n"
    assert place.is_symlink()  # outside it is as it was

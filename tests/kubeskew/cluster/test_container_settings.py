"""The runtime, images and image policy of a cluster's nodes."""

import io
import json
import tarfile

import pytest
import yaml
from click.testing import CliRunner

from kubeskew.cli.commands import lifecycle
from kubeskew.cluster import launcher
from kubeskew.cluster.config import ClusterSpec, is_program, over, parse
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.state import Process, State, StateDir
from kubeskew.kubelet.cli import kubelet
from kubeskew.kubelet.containers.image_entries import entry_for
from kubeskew.kubelet.node.config import load_nodes

FILE = """
runtime: host
images:
  "busybox*": {program: /bin/busybox}
  "example.com/app": {path: ./app.tar}
imagePolicy: simulate
nodes:
- {name: a}
- {name: b, runtime: simulated, imagePolicy: strict, images: {"busybox*": {runsFor: 5}}}
"""


def nodes_of(spec: ClusterSpec, tmp_path):
    """The nodes as their kubelets read them."""
    state = State({}, containers=dict(spec.containers))
    state.nodes = {node.name: node.as_json() for node in spec.nodes}
    directory = StateDir(tmp_path / "state")
    directory.save(state)
    process = Process(name="kubelet", kind="kubelet", version="1.36", gates={}, nodes=[*state.nodes])
    directory.nodes_file(process.name).parent.mkdir(parents=True, exist_ok=True)
    launcher.write_nodes_file(directory, directory.load(), process)
    return load_nodes(directory.nodes_file(process.name))


def test_the_settings_of_a_file_reach_the_kubelets(tmp_path):
    """A node's own settings come before those of the cluster; relative paths begin at the file."""
    a, b = nodes_of(parse(yaml.safe_load(FILE), "file", tmp_path), tmp_path)

    assert (a.runtime, a.image_policy, a.strict_images) == ("host", "simulate", False)
    assert str(entry_for(a.images, "busybox:1.36").program) == "/bin/busybox"
    assert entry_for(a.images, "example.com/app:2").path == tmp_path / "app.tar"
    assert (b.runtime, b.strict_images) == ("simulated", True)
    assert entry_for(b.images, "busybox").behaviour.runs_for == 5
    assert entry_for(b.images, "example.com/app").path == tmp_path / "app.tar"


def test_nodes_are_simulated_by_default(tmp_path):
    """Without settings containers are acted, and every image is there."""
    [node] = nodes_of(parse({"nodes": [{"name": "n"}]}, "file"), tmp_path)
    assert (node.runtime, node.images, node.strict_images) == ("simulated", (), False)


def test_images_of_programs_are_strict(tmp_path):
    """An image without an entry cannot be had where programs run, unless the file says otherwise."""
    [node] = nodes_of(parse({"runtime": "host", "nodes": [{"name": "n"}]}, "file"), tmp_path)
    assert node.strict_images


def test_endpoints_of_container_runtimes(tmp_path):
    """A node's own endpoint comes before the cluster's, and containerd's counts without one."""
    crio = "unix:///run/crio/crio.sock"
    nodes = [
        {"name": "a"}, {"name": "b", "containerRuntimeEndpoint": "unix:///b"},
        {"name": "c", "runtime": "simulated"},
    ]  # fmt: skip
    file = {"runtime": "cri", "containerRuntimeEndpoint": crio, "nodes": nodes}
    assert [node.endpoint for node in nodes_of(parse(file, "file"), tmp_path)] == [crio, "unix:///b", ""]
    alone = {"containerRuntimeEndpoint": crio, "nodes": [{"name": "n"}]}
    assert [node.endpoint for node in nodes_of(parse(alone, "file"), tmp_path)] == [crio]
    [node] = nodes_of(parse({"nodes": [{"name": "n", "runtime": "cri"}]}, "file"), tmp_path)
    assert node.endpoint == "unix:///run/containerd/containerd.sock"


def test_the_endpoint_of_a_flag(tmp_path):
    """It has the nodes of a file use it whose entry names no runtime."""
    file = tmp_path / "nodes.yaml"
    file.write_text("nodes: [{name: a}, {name: b, runtime: simulated}]")
    assert [node.endpoint for node in load_nodes(file, "unix:///x")] == ["unix:///x", ""]


def test_flags_come_before_the_file():
    """The runtime of a flag replaces that of the file, and its images come first."""
    file = {"runtime": "simulated", "images": {"a*": {"runsFor": 1}, "b": {"runsFor": 2}}}
    flags = {"runtime": "host", "images": {"b": {"program": "/b"}, "c": {"program": "/c"}}}
    found = parse(file, "file").with_flags(None, {}, 1, None, 0, containers=flags)
    assert found.containers["runtime"] == "host"
    assert [*found.containers["images"].items()] == [
        ("b", {"program": "/b"}), ("c", {"program": "/c"}), ("a*", {"runsFor": 1}),
    ]  # fmt: skip
    assert over({}, {}) == {}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{runtime: docker}", "runtime: expected simulated or host or host-plain or cri, found 'docker'"),
        ("{runtime: cri, containerRuntimeEndpoint: /run/x.sock}", "containerRuntimeEndpoint: expected a URL"),
        (
            "{runtime: host, containerRuntimeEndpoint: 'unix:///x'}",
            "containerRuntimeEndpoint: is for runtime: cri",
        ),
        ("{imagePolicy: never}", "imagePolicy: expected strict or simulate, found 'never'"),
        ("{images: {a: {file: x}}}", "images.a: unknown key 'file'; known are"),
        (
            "{images: {a: {onSigterm: soon}}}",
            "images.a.onSigterm: expected ignore, exit or a number of seconds",
        ),
    ],
)
def test_settings_that_there_are_not(text, error):
    """A mistake is reported with its place, of a cluster and of a node."""
    with pytest.raises(UserError, match=error):
        parse(yaml.safe_load(text), "file")
    with pytest.raises(UserError, match=error):
        parse({"nodes": [yaml.safe_load(text)]}, "file")


@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("app", True),
        ("app:1", True),
        ("docker.io/library/app:1", True),
        ("app@sha256:00", True),
        ("team/app", False),
        ("registry.example/x/tool:2", True),
        ("registry.example/x/tool", True),
        ("registry.example/tool", False),
    ],
)
def test_names_of_images(name, fits):
    """A pattern is of the name as it is given, in full or short, with its tag or without."""
    [node] = load_json({"name": "n", "images": {"app": {}, "registry.example/*/tool": {}}})
    assert (entry_for(node.images, name) is not None) == fits


def load_json(*nodes):
    from kubeskew.kubelet.node.config import node_config

    return [node_config(json.loads(json.dumps(node))) for node in nodes]


def test_what_a_flag_names(tmp_path):
    """A file that can be executed is a program; a directory or an archive is a path."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    assert not is_program(program)
    program.chmod(0o700)
    assert is_program(program)
    assert not is_program(tmp_path)
    archive = tmp_path / "archive.tar"
    with tarfile.open(archive, "w") as opened:
        opened.addfile(tarfile.TarInfo("x"), io.BytesIO())
    archive.chmod(0o700)
    assert not is_program(archive)


@pytest.mark.parametrize(
    ("image", "error"),
    [
        ("busybox", "--image: expected NAME=PATH, found 'busybox'"),
        ("a=/nowhere", "--image: there is no /nowhere"),
    ],
)
def test_an_image_flag_that_is_none(tmp_path, image, error):
    """A mistake in the flag is reported before anything starts."""
    done = CliRunner().invoke(lifecycle.up, ["--state-dir", str(tmp_path / "s"), "--image", image])
    assert error in str(done.exception)


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--container-runtime-endpoint", "unix:///none/x.sock"],
         ("kubelet/node-1: validate service connection: validate CRI v1 runtime API for endpoint "
         '"unix:///none/x.sock": rpc error: code = Unavailable')),
        (["--container-runtime-endpoint", "tcp://127.0.0.1:1"],
         "kubelet/node-1: only support unix socket endpoint"),
        (["--container-runtime-endpoint", "unix:///x", "--runtime", "host"],
         "--container-runtime-endpoint: is for --runtime cri"),
    ],
)  # fmt: skip
def test_an_endpoint_flag_that_is_none(tmp_path, flags, error):
    """The reason why nothing can run there is one line, before anything starts."""
    directory = tmp_path / "s"
    done = CliRunner().invoke(lifecycle.up, ["--state-dir", str(directory), *flags])
    assert isinstance(done.exception, UserError)
    assert str(done.exception).startswith(error)
    assert "\n" not in str(done.exception)
    assert not directory.exists()


def test_a_kubelet_without_its_runtime(tmp_path):
    """A kubelet in the foreground ends with upstream's words and exit status 2."""
    file = tmp_path / "nodes.yaml"
    file.write_text("nodes: [{name: a}]")
    arguments = ["--nodes-file", str(file), "--root-dir", str(tmp_path), "--kubeconfig", str(file)]
    endpoint = ["--container-runtime-endpoint", "unix:///none/x.sock"]
    done = CliRunner().invoke(kubelet, [*arguments, *endpoint])
    assert done.exit_code == 2
    assert "failed to run Kubelet: validate service connection: validate CRI v1 runtime API" in done.output

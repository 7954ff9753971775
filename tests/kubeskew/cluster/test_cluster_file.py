"""Cluster files: what they say, and what is wrong with them."""

import re
from pathlib import Path

import pytest
import yaml

from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.options import automatic, cores
from kubeskew.cluster import creation, launcher
from kubeskew.cluster.change_plan import disagreements, initial_target
from kubeskew.cluster.config import NodeSpec, load, parse
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.state import StateDir

EXAMPLE = """
version: "1.35"
featureGates: {DRAExtendedResource: true}
nodes:
- name: gpu-node
  labels: {zone: a}
  capacity: {cpu: "8", memory: 32Gi, pods: "110"}
  drivers: [{name: gpu.example.com, devices: 8}]
- count: 2
components:
  scheduler: {version: "1.34", featureGates: {DRAExtendedResource: false}}
"""


def test_a_whole_file():
    """Versions, gates, nodes, counts and overrides are read."""
    spec = parse(yaml.safe_load(EXAMPLE), "file")

    assert spec.version == Version(35)
    assert spec.gates == {"DRAExtendedResource": True}
    assert [node.name for node in spec.nodes] == ["gpu-node", "node-2", "node-3"]
    assert spec.nodes[0].drivers == ({"name": "gpu.example.com", "devices": 8},)
    assert spec.overrides["scheduler"]["version"] == Version(34)


def test_an_empty_file_is_the_default_cluster():
    """Nothing said means the default version and three nodes."""
    assert len(parse(None, "file").nodes) == 3


def test_bugs_are_switched_for_the_components_that_have_them():
    """A component is given its own bugs alone: those of the whole cluster, and then those of itself."""
    text = """
version: "1.34.1"
bugs: {k8s-134773: off}
components: {controller-manager: {bugs: {k8s-132334: on}}}
nodes: [{name: a}, {name: b}]
"""
    spec = parse(yaml.safe_load(text), "file").with_flags(None, {}, None, None, 0, {"k8s-134773": True})

    targets = {name: initial_target(spec, name) for name in spec.components}
    assert targets.pop("controller-manager").bugs == {"k8s-132334": True, "k8s-134773": True}
    assert {name: target.bugs for name, target in targets.items()} == {name: {} for name in targets}
    assert {str(target.version) for target in targets.values()} == {"1.34.1"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("bugs: {k8s-1: off}", "file: bugs: there is no known bug k8s-1"),
        ("bugs: [k8s-134773]", "file: bugs: expected a mapping of names to true or false"),
        ("bugs: {k8s-141471: on}", "file: bugs: k8s-141471 cannot be switched on"),
        (
            "components: {scheduler: {bugs: {k8s-134773: off}}}",
            "k8s-134773 is a bug of the controller-manager",
        ),
        ('version: "1.34.99"', "there is no release 1.34.99: the newest patch of 1.34 is 1.34."),
    ],
)
def test_bugs_and_patches_that_never_were_are_refused(text: str, why: str):
    """An unknown bug, one of another component and an unknown patch are reported with their place."""
    with pytest.raises(UserError, match=re.escape(why)):
        parse(yaml.safe_load(text), "file")


def test_flags_win_over_the_file():
    """The command line changes what the file says."""
    spec = parse(yaml.safe_load(EXAMPLE), "file").with_flags(Version(36), {"DRADeviceTaints": True}, 1, 1, 0)

    assert (spec.version, len(spec.nodes)) == (Version(36), 1)
    assert spec.gates == {"DRAExtendedResource": True, "DRADeviceTaints": True}


def test_a_node_goes_through_json():
    """A node written to the nodes file is read back unchanged."""
    node = parse(yaml.safe_load(EXAMPLE), "file").nodes[0]
    assert NodeSpec.from_json(node.as_json()) == node


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodez: []", "file: unknown key 'nodez'; known are"),
        ("[1]", "file: expected a mapping, found list"),
        ("version: '1.99'", "version 1.99 is not supported: choose one from 1.26 to 1.37"),
        ("version: one", "'one' is not a Kubernetes version"),
        ("featureGates: {A: 1}", "featureGates.A: expected true or false, found 1"),
        ("featureGates: {NoSuchGate: true}", "unrecognized feature gate: NoSuchGate"),
        ("nodes: {}", "file: nodes: expected a list, found dict"),
        ("nodes: [{count: x}]", r"nodes\[0\].count: expected a number"),
        ("nodes: [{name: a}, {name: a}]", "two nodes are named a"),
        (
            "nodes: [{name: a, drivers: [{devices: 1}]}]",
            r"drivers\[0\]: expected `name`: the driver's name, as in",
        ),
        (
            "nodes: [{name: a, drivers: [{name: d, syncDelay: 30}]}]",
            r"nodes\[0\].drivers\[0\].syncDelay: expected a duration such as",
        ),
        (
            "nodes: [{drivers: [{name: d, syncDelay: 30s}]}, {drivers: [{name: d, syncDelay: 1m}]}]",
            "file: nodes: driver d: syncDelay differs between nodes",
        ),
        (
            "nodes: [{drivers: [{name: d, syncDelay: 30s}]}, {drivers: [{name: d}]}]",
            "file: nodes: driver d: syncDelay differs between nodes",
        ),
        (
            "nodes: [{devicePlugins: [{resource: gpu}]}]",
            "resource: expected a resource such as example.com/gpu, found 'gpu'",
        ),
        (
            "nodes: [{devicePlugins: [{devices: 2}]}]",
            r"devicePlugins\[0\]: expected `resource`: a resource such as",
        ),
        (
            "nodes: [{devicePlugins: [{resource: deviceclass.resource.kubernetes.io/a}]}]",
            r"devicePlugins\[0\].resource: expected a resource such as",
        ),
        ("nodes: [{devicePlugins: [{resource: a.b/c, devices: many}]}]", "devices: expected a number"),
        ("nodes: [{devicePlugins: [{resource: a.b/c, name: d}]}]", "unknown key 'name'"),
        ("components: {scheduler: {versoin: 1}}", "unknown key 'versoin'"),
        ("verbosity: high", "verbosity: expected a number from 0 to 10, found 'high'"),
        ("time: slow", "time: expected quick or real, found 'slow'"),
        ("verbosity: true", "verbosity: expected a number from 0 to 10, found True"),
        ("verbosity: 11", "verbosity: expected a number from 0 to 10, found 11"),
        ("metricsServer: 1", "file: metricsServer: expected true or false, found 1"),
        ("like: kin", "file: like: expected kind, found 'kin'; did you mean kind"),
        ("storage: 1", "file: storage: expected a text, found 1; write it in quotes"),
        ("storage: mysql://me:secret@a/b", "file: storage: expected postgresql://.*, found mysql://me:"),
        ("components: [scheduler]", "file: components: expected a mapping of component names, found list"),
        ("components: {scheduler: }", "file: components.scheduler: expected a mapping, found None"),
        ("nodes: [{taints: [a]}]", r"nodes\[0\].taints\[0\]: expected a mapping, found 'a'"),
        ("nodes: [{labels: {a: }}]", r"nodes\[0\].labels.a: expected a text or a number or true or false"),
        (
            "nodes: [{drivers: [{name: d, pluginAPIs: [v2]}]}]",
            r"drivers\[0\].pluginAPIs\[0\]: expected v1 or v1alpha2 or v1alpha3 or v1beta1, found 'v2'",
        ),
        (
            "nodes: [{drivers: [{name: d, controller: {userLimit: 0}}]}]",
            r"controller.userLimit: expected a number above 0, or -1 for any, found 0",
        ),
        (
            "nodes: [{drivers: [{name: d, controller: {semanticParameters: {kind: a}}}]}]",
            r"controller.semanticParameters: expected `apiGroup`",
        ),
    ],
)
def test_what_is_wrong_is_said(text: str, message: str):
    """A wrong file is answered with the place and what is wrong there."""
    with pytest.raises(UserError, match=message):
        parse(yaml.safe_load(text), "file")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodes:\n- labels: {on: a}", ':2: YAML reads the key on as a boolean; write "on"'),
        ("ha: 1\nha: 2", ":2: the key ha is there twice in one mapping"),
        ("ha: 1\n---\nha: 2", "expected one document, found 2"),
        (
            "components: {schedular: {version: '1.35'}}",
            "there is no component schedular; .* did you mean scheduler",
        ),
        ("components: {kubelet/node-4: {version: '1.35'}}", "there is no component kubelet/node-4"),
        ("featureGates: {DRAExtendedResorce: true}", "unrecognized .*; did you mean DRAExtendedResource"),
        (
            "ha: 2\ncomponents: {scheduler: {server: apiserver-3}}",
            "scheduler: there is no API server apiserver-3; known are apiserver-1, apiserver-2, any",
        ),
        ("components: {apiserver: {server: any}}", "components.apiserver: server: an API server speaks to"),
        ("ha: two", "yaml:1: ha: expected the number of API servers, 1 to 9, found 'two'"),
        ("nodes:\n- name: a\n  cuont: 2", r"yaml:3: nodes\[0\]: unknown key 'cuont'"),
        (
            "nodes:\n- {}\n- name: a\n  drivers:\n  - devices: 1",
            r"yaml:5: nodes\[1\].drivers\[0\]: expected `name`: the driver",
        ),
        (
            "version: '1.35'\nbugs:\n  k8s-134773: off\n  k8s-1: off",
            "yaml:4: bugs: there is no known bug k8s-1",
        ),
        (
            "featureGates:\n  DRAExtendedResource: true\n  DRAExtended: true",
            "yaml:3: featureGates: unrecognized feature gate: DRAExtended",
        ),
        (
            "nodes: []\ncomponents:\n  kubelet/n-1: {}",
            "yaml:3: components: there is no component kubelet/n-1",
        ),
        (
            "components:\n  kubelet: &k {version: '1.35'}\n  scheduler: {<<: *k, server: x}",
            "yaml:3: components.scheduler: there is no API server x",
        ),
        ("nodes: [{count: 1, labels: 1}]", r"yaml:1: nodes\[0\].labels: expected a mapping, found 1"),
        ("version: '1.35'\nnodes: [{name: a}, {name: a}]", "yaml:2: two nodes are named a"),
    ],
)
def test_what_a_file_cannot_mean_is_refused(tmp_path: Path, text: str, message: str):
    """Keys that are not what they look like, and names of what is not there, come with a suggestion."""
    (tmp_path / "cluster.yaml").write_text(text)
    with pytest.raises(UserError, match=message):
        load(tmp_path / "cluster.yaml")


def test_the_verbosity_of_logs_reaches_every_component(ports, tmp_path: Path):
    """`verbosity` is each process's flag `--v`, also when the record has been written and read."""
    directory = StateDir(tmp_path)
    directory.save(creation.plan(parse({"verbosity": 5, "nodes": [{"name": "n"}]}, "file"), ports))
    state = directory.load()

    flags = [launcher.arguments(directory, state, process) for process in state.processes.values()]
    assert [each[each.index("--v") + 1] for each in flags] == ["5", "5", "5", "5"]
    state.verbosity = 0
    assert "--v" not in launcher.arguments(directory, state, state.processes["scheduler"])


def test_workers_reach_the_api_servers(ports, tmp_path: Path):
    """`workers` of all servers or of one is their flag, also when the record has been written and read;
    without it the server chooses.
    """
    text = {"ha": 3, "apiserver": {"workers": 3}, "components": {"apiserver-2": {"workers": "auto"}}}
    directory = StateDir(tmp_path)
    directory.save(creation.plan(parse({**text, "nodes": []}, "file"), ports))
    state = directory.load()

    servers = state.of_kind("apiserver")
    flags = [launcher.arguments(directory, state, process) for process in servers]
    assert [each[each.index("--workers") + 1] for each in flags] == ["3", "auto", "3"]
    assert [servers[0].worker_count, servers[1].worker_count] == [3, automatic(cores())]
    scheduler = launcher.arguments(directory, state, state.processes["scheduler"])
    assert "--workers" not in scheduler
    plain = creation.plan(parse({"nodes": []}, "file"), ports).processes["apiserver"]
    assert (plain.workers, plain.worker_count) == ("", 1)
    assert "apiserver-1 has 3 workers, not 1" in disagreements(
        state, parse({"ha": 3, "nodes": []}, "file"), {"workers"}
    )


@pytest.mark.parametrize(("processors", "workers"), [(1, 1), (2, 1), (3, 1), (4, 2), (6, 4), (64, 4)])
def test_two_processors_are_left_by_the_automatic_number(processors: int, workers: int):
    """One processor is for clients and one for the log's writer; more than four workers gain nothing."""
    assert automatic(processors) == workers


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ({"apiserver": {"workers": 0}}, r"workers: expected a number from 1 to 64, or auto, found 0"),
        (
            {"apiserver": {"workers": "many"}},
            r"workers: expected a number .*, or auto, found 'many'",
        ),
        ({"components": {"scheduler": {"workers": 2}}}, r"scheduler: workers: only an API server has some"),
    ],
)
def test_other_workers_are_refused(text: dict, message: str):
    """A number that is impossible, or of a component without workers, is named with its place."""
    with pytest.raises(UserError, match=message):
        parse(text, "file")


def test_the_time_of_a_file_reaches_every_component(ports, tmp_path: Path):
    """`time: real` is each process's flag `--time`, also when the record has been written and read."""
    directory = StateDir(tmp_path)
    directory.save(creation.plan(parse({"time": "real", "nodes": [{"name": "n"}]}, "file"), ports))
    state = directory.load()

    flags = [launcher.arguments(directory, state, process) for process in state.processes.values()]
    assert [each[each.index("--time") + 1] for each in flags] == ["real"] * 4
    state.time = "quick"
    assert "--time" not in launcher.arguments(directory, state, state.processes["scheduler"])


def test_a_file_gives_the_number_of_servers():
    """`ha` names them, too; the flag wins."""
    components = {"apiserver-2": {"version": "1.35"}}
    spec = parse({"ha": 2, "nodes": [], "components": components}, "file")

    assert spec.components == ("apiserver-1", "apiserver-2", "controller-manager", "scheduler")
    assert spec.with_flags(None, {}, None, None, 0).servers == 2
    assert spec.with_flags(None, {}, None, 3, 0).servers == 3

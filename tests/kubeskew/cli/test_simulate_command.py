"""`kubeskew simulate`: its answers from files, for each form of claim, and what it says of bad input."""

import json
from datetime import UTC, datetime

import pytest

from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.cli.main import main
from kubeskew.cluster.autoscaling.simulator import SnapshotTransport
from kubeskew.cluster.config import ClusterSpec
from kubeskew.cluster.creation import create, write_credentials
from kubeskew.cluster.ports import HeldPorts
from kubeskew.cluster.state import StateDir

_GPU_NODES = """
nodes:
- name: gpu
  count: 7
  drivers: [{name: gpu.example.com, devices: 2}]
"""
_CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec:
  selectors: [{cel: {expression: "device.driver == 'gpu.example.com'"}}]
  extendedResourceName: example.com/gpu
"""
_TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}
"""
_NODE_MANIFESTS = """
apiVersion: v1
kind: Node
metadata: {name: gpu}
status:
  allocatable: {cpu: "8", memory: 32Gi, pods: "110"}
  capacity: {cpu: "8", memory: 32Gi, pods: "110"}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.example.com
  nodeName: gpu
  pool: {name: gpu, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}, {name: gpu-1}]
"""
_DRA = {"1.32": "DynamicResourceAllocation=true", "1.33": "DynamicResourceAllocation=true"}


def _pods(count, spec, name="web"):
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c"}], **spec}}
    body = {"replicas": count, "selector": {"matchLabels": {"app": name}}, "template": template}
    return json.dumps(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": body}
    )


def _claiming(count):
    return _pods(count, {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "one"}]})


def _using(count, resource):
    container = {"name": "c", "resources": {"limits": {resource: "1"}}}
    return _pods(count, {"containers": [container]})


@pytest.fixture
def simulate(tmp_path, capsys, monkeypatch):
    """Runs the command; files are given by name and content, options as they are."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, **files):
        for name, content in files.items():
            (tmp_path / name).write_text(content)
        with pytest.raises(SystemExit) as ended:
            main(["simulate", *arguments])
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return run


def _scale_up(simulate, nodes, *objects, version="1.36", gates=""):
    options = ["--version", version, "-o", "json", *(["--feature-gates", gates] if gates else [])]
    files = {"nodes": nodes, "objects": "\n---\n".join(objects)}
    code, out, err = simulate("scale-up", "--node-template", "nodes", "-f", "objects", *options, **files)
    return code, json.loads(out) if out else err


@pytest.mark.parametrize("version", ["1.32", "1.33", "1.34", "1.35", "1.36", "1.37"])
@pytest.mark.parametrize("nodes", [_GPU_NODES, _NODE_MANIFESTS], ids=["cluster-file", "manifests"])
def test_claims_of_templates_need_devices(simulate, version, nodes):
    """From zero, five pods with a device each need three nodes of two devices."""
    code, answer = _scale_up(
        simulate, nodes, _CLASS, _TEMPLATE, _claiming(5), version=version, gates=_DRA.get(version, "")
    )
    (gpu,) = answer["templates"]

    assert (code, gpu["name"], gpu["nodes"]) == (0, "gpu", 3)
    assert [pod["node"] for pod in gpu["pods"]] == ["gpu-1", "gpu-1", "gpu-2", "gpu-2", "gpu-3"]
    assert answer["unschedulable"] == answer["existing"] == []


def test_named_resources_need_instances(simulate):
    """In 1.30 a template's devices are published by its kubelet, as named resources."""
    head = {"apiVersion": "resource.k8s.io/v1alpha2"}
    made = {"kind": "ResourceClass", "metadata": {"name": "gpu"}, "driverName": "gpu.example.com"}
    spec = {"spec": {"resourceClassName": "gpu", "allocationMode": "WaitForFirstConsumer"}}
    claims = {"kind": "ResourceClaimTemplate", "metadata": {"name": "one"}, "spec": spec}
    entry = {"name": "g", "source": {"resourceClaimTemplateName": "one"}}
    code, answer = _scale_up(
        simulate,
        _GPU_NODES,
        json.dumps({**head, **made, "structuredParameters": True}),
        json.dumps({**head, **claims}),
        _pods(3, {"resourceClaims": [entry]}),
        version="1.30",
        gates="DynamicResourceAllocation=true",
    )
    assert (code, answer["templates"][0]["nodes"]) == (0, 2)


_CARDS = """
nodes:
- name: card
  drivers:
  - name: cards.dra.example.com
    resources:
      nodeResources:
      - id: CardA
        attributes:
        - {name: meta, metadata: {labels: [{name: Color, value: Red}]}}
        - {name: RAM, counter: {count: 1000}}
"""
_VENDORS = """
apiVersion: dra.example.com/v1alpha1
kind: CardParameters
metadata: {name: wish, uid: u-1}
spec: {ram: 400}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: cardparameters.dra.example.com}
spec:
  group: dra.example.com
  names: {plural: cardparameters, kind: CardParameters}
  scope: Namespaced
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClass
metadata: {name: cards}
driverName: cards.dra.example.com
parameterTypes: [{apiGroup: dra.example.com, kind: CardParameters}]
---
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClaimParameters
metadata: {name: generated}
generatedFrom: {name: wish, kind: CardParameters, apiGroup: dra.example.com, uid: u-1, generation: 1}
parameters:
- {name: meta, metadata: {selector: 'labels["Color"] == "Red"'}}
- {name: RAM, counter: {required: 400}}
---
apiVersion: resource.k8s.io/v1alpha2
kind: ResourceClaimTemplate
metadata: {name: one}
spec:
  spec:
    resourceClassName: cards
    parametersRef: {apiGroup: dra.example.com, kind: CardParameters, name: wish}
"""


@pytest.mark.parametrize(("color", "nodes"), [("Red", 3), ("Blue", 0)])
def test_semantic_parameters_need_resources(simulate, color, nodes):
    """In 1.29+kep4381 claims of a vendor's kind count for the cards of a template."""
    entry = {"name": "g", "source": {"resourceClaimTemplateName": "one"}}
    pods = _pods(5, {"resourceClaims": [entry]})
    cards = _CARDS.replace("Red", color)
    code, answer = _scale_up(simulate, cards, _VENDORS, pods, version="1.29+kep4381")

    assert (code, answer["templates"][0]["nodes"]) == (0 if nodes else 1, nodes)


@pytest.mark.parametrize("version", ["1.34", "1.35", "1.36", "1.37"])
def test_extended_resources_need_devices(simulate, version):
    """Pods that ask for an extended resource get devices of its class on new nodes."""
    code, answer = _scale_up(
        simulate,
        _GPU_NODES,
        _CLASS,
        _using(3, "example.com/gpu"),
        version=version,
        gates="DRAExtendedResource=true",
    )
    assert (code, answer["templates"][0]["nodes"]) == (0, 2)


def test_without_the_gate_an_extended_resource_needs_a_device_plugin(simulate):
    """With the gate off no node with devices helps; one with a device plugin does."""
    plugged = "nodes: [{name: plug, devicePlugins: [{resource: example.com/gpu, devices: 2}]}]"
    pods, off = _using(3, "example.com/gpu"), "DRAExtendedResource=false"
    code, answer = _scale_up(simulate, _GPU_NODES, _CLASS, pods, gates=off)
    assert code == 1
    assert answer["unschedulable"][0]["reasons"] == ["gpu: Insufficient example.com/gpu"]

    code, answer = _scale_up(simulate, plugged, _CLASS, pods, gates=off)
    assert (code, answer["templates"][0]["nodes"]) == (0, 2)


@pytest.mark.parametrize("version", ["1.35", "1.36"])
def test_partitions_share_the_counters_of_their_device(simulate, version):
    """Seven of the smallest partitions fit a GPU: fifteen of them need two nodes of one GPU, and one more."""
    nodes = "nodes: [{name: mig, drivers: [{name: gpu.example.com, profile: a100-mig, devices: 1}]}]"
    small = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec:
  spec:
    devices:
      requests:
      - name: r
        exactly:
          deviceClassName: gpu
          selectors: [{cel: {expression: "device.attributes['gpu.example.com'].profile == '1g.5gb'"}}]
"""
    gates = "DRAPartitionableDevices=true"
    code, answer = _scale_up(simulate, nodes, _CLASS, small, _claiming(15), version=version, gates=gates)

    assert (code, answer["templates"][0]["nodes"]) == (0, 3)


def test_pods_of_daemon_sets_take_room_on_new_nodes(simulate):
    """A DaemonSet that takes half of each node leaves room for one large pod."""
    container = {"name": "c", "resources": {"requests": {"cpu": "4"}}}
    template = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [container]}}
    daemon = {"selector": {"matchLabels": {"app": "d"}}, "template": template}
    made = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}, "spec": daemon}
    pods = _pods(2, {"containers": [container]})
    for objects, nodes in ((pods,), 1), ((pods, json.dumps(made)), 2):
        _, answer = _scale_up(simulate, "nodes: [{name: big}]", *objects)
        assert answer["templates"][0]["nodes"] == nodes


def test_a_table_for_people(simulate):
    """Without -o json there are tables, and the reasons of pods that fit nowhere."""
    files = {"nodes": _GPU_NODES, "objects": "\n---\n".join([_CLASS, _TEMPLATE, _claiming(3)])}
    code, out, _ = simulate("scale-up", "--node-template", "nodes", "-f", "objects", "--max", "1", **files)

    assert code == 1
    assert out.splitlines()[:2] == ["TEMPLATE   NODES   PODS", "gpu        1       2"]
    assert "  gpu: no more than 1 nodes may be added" in out


def test_a_node_is_removed_if_its_pods_fit_elsewhere(simulate):
    """Scale-down answers from files, too: its exit status says whether the node can go."""
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
        }
        for name, cpu in (("a", "4"), ("b", "2"))
    ]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {
                "nodeName": node,
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}],
            },
        }
        for name, node in (("p", "a"), ("q", "b"))
    ]
    cluster = "\n---\n".join(map(json.dumps, [*nodes, *pods]))
    code, out, _ = simulate("scale-down", "b", "-f", "cluster", "-o", "json", cluster=cluster)
    assert (code, json.loads(out)["removable"]) == (0, True)
    assert json.loads(out)["pods"] == [{"pod": "default/q", "node": "a"}]

    code, out, _ = simulate("scale-down", "a", "-f", "cluster")
    assert code == 1
    assert "a has to stay." in out
    assert "Insufficient cpu" in out


_SLICE_OF_ALL = """
apiVersion: v1
kind: Node
metadata: {name: gpu}
status: {allocatable: {cpu: "8"}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: gpu.example.com
  allNodes: true
  pool: {name: all, generation: 1, resourceSliceCount: 1}
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["scale-up", "-f", "objects"], "no node to add: give a cluster file"),
        (["scale-up", "--node-template", "empty", "-f", "objects"], "empty has no nodes"),
        (["scale-up", "--node-template", "objects", "-f", "objects"], "objects has no nodes"),
        (["scale-up", "--node-template", "nodes", "--node-template", "same", "-f", "objects"], "gpu already"),
        (
            ["scale-up", "--node-template", "directory", "-f", "objects"],
            "'directory' is a directory; see `kube",
        ),
        (["scale-up", "--node-template", "nodes", "--max", "x"], "'x' is not a valid integer"),
        (["scale-up", "--node-template", "absent", "-f", "objects"], "cannot read absent"),
        (["scale-up", "--node-template", "nodes", "-f", "absent"], "cannot read absent"),
        (["scale-up", "--node-template", "nodes"], "there is no cluster in "),
        (["scale-up", "--node-template", "shared", "-f", "objects"], "because it isn't node-local"),
        (["scale-up", "--node-template", "bare", "-f", "objects"], "bare: node n has no status.allocatable"),
        (["scale-up", "--node-template", "nodes", "-f", "unknown"], "there is no Widget in v1 in 1.36"),
        (["scale-up", "--node-template", "nodes", "-f", "lacking"], "there is no ResourceClaimTemplate one"),
        (["scale-up", "--node-template", "nodes", "--version", "1.35"], "go with -f"),
        (["scale-down", "gone", "-f", "objects"], "there is no node gone"),
        (["scale-down", "gone"], "there is no cluster in "),
        (
            ["scale-down", "a", "-f", "objects", "--feature-gates", "Nope=true"],
            "unrecognized feature gate: Nope",
        ),
    ],
)
def test_bad_input_is_one_clear_line(simulate, tmp_path, arguments, said):
    """The line says what is wrong and where; the exit status is 2."""
    (tmp_path / "directory").mkdir()
    files = {
        "nodes": _GPU_NODES,
        "same": _GPU_NODES,
        "empty": "nodes: []",
        "objects": _CLASS,
        "shared": _SLICE_OF_ALL,
        "bare": "{apiVersion: v1, kind: Node, metadata: {name: n}}",
        "unknown": "{apiVersion: v1, kind: Widget, metadata: {name: w}}",
        "lacking": _claiming(1),
    }
    code, out, err = simulate(*arguments, **files)

    assert (code, out) == (2, "")
    assert said in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("question", [["scale-down", "a"], ["scale-up", "--node-template", "nodes"]])
def test_a_cluster_that_does_not_run_is_reported(simulate, tmp_path, question):
    """A state directory whose API server does not answer ends the command at once."""
    directory = StateDir(tmp_path / "state")
    directory.path.mkdir(mode=0o700)
    with HeldPorts() as ports:
        create(directory, ClusterSpec(), ports, datetime.now(UTC), write_credentials)
    code, out, err = simulate(*question, "--state-dir", str(directory.path), nodes=_GPU_NODES)

    assert (code, out) == (2, "")
    assert "the cluster does not run" in err.splitlines()[-1]
    assert f"`kubeskew --state-dir {directory.path} up`" in err.splitlines()[-1]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_simulation_cannot_write(method):
    """The client of a simulation's scheduler reads lists; every write is refused."""
    client = APIClient(SnapshotTransport(None, {"/api/v1/pods": [{"metadata": {"name": "p"}}]}))

    assert [pod["metadata"]["name"] for pod in (await client.list(PODS))["items"]] == ["p"]
    with pytest.raises(StatusError, match="a simulation writes nothing"):
        await client.request(method, "/api/v1/namespaces/default/pods/p")

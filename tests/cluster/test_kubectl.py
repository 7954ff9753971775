"""Three versions of kubectl work against a running cluster."""

import json

import pytest
from asking import eventually

pytestmark = [pytest.mark.kubectl, pytest.mark.cluster, pytest.mark.xdist_group("cluster")]

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "img:1", ports: [{containerPort: 80}]}]}
"""
CLASS_AND_CLAIM = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: %(name)s}
spec: {selectors: [{cel: {expression: "device.driver == 'gpu.example.com'"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: claim}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: %(name)s}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  resourceClaims: [{name: gpu, resourceClaimName: claim}]
  containers: [{name: c, image: img, resources: {claims: [{name: gpu}]}}]
"""

BAD_POD = """
apiVersion: v1
kind: Pod
metadata: {name: Bad_Name}
spec: {containers: [{name: c, image: i}]}
"""
MANIFESTS = {
    "configmap": "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: b}}",
    "secret": "---\n{apiVersion: v1, kind: Secret, metadata: {name: x}, stringData: {a: b}}",
    "service": """
apiVersion: v1
kind: Service
metadata: {name: x}
spec: {selector: {a: b}, ports: [{port: 80}]}
""",
    "replicaset": """
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: x}
spec:
  replicas: 0
  selector: {matchLabels: {a: b}}
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}
""",
    "resourceclaimtemplate": """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: x}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c}}]}}}
""",
}


def test_nodes_are_ready(kubectl):
    """`get nodes` shows every node Ready at the cluster's version."""
    lines = kubectl("get", "nodes").stdout.splitlines()

    assert lines[0].split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert [line.split()[0] for line in lines[1:]] == ["gpu-node", "node-1"]
    assert all(line.split()[1] == "Ready" and line.split()[4].startswith("v1.36.") for line in lines[1:])


def test_a_deployment_from_apply_to_rollback(kubectl):
    """apply, rollout status, scale, set image, history, undo: what kubectl users do with deployments."""
    assert kubectl("apply", "-f", "-", stdin=DEPLOYMENT).stdout == "deployment.apps/web created\n"
    assert (
        "successfully rolled out" in kubectl("rollout", "status", "deployment/web", "--timeout=120s").stdout
    )
    assert kubectl("apply", "-f", "-", stdin=DEPLOYMENT).stdout == "deployment.apps/web unchanged\n"
    kubectl("scale", "deployment/web", "--replicas=3")
    kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    assert kubectl("get", "deployment", "web").stdout.splitlines()[1].split()[:4] == ["web", "3/3", "3", "3"]
    kubectl("set", "image", "deployment/web", "c=img:2")
    kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    images = kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.containers[0].image}").stdout.split()
    assert set(images) == {"img:2"}
    kubectl("rollout", "undo", "deployment/web")
    kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    assert len(kubectl("get", "rs", "-o", "name").stdout.split()) == 2
    kubectl("delete", "deployment", "web")
    eventually(lambda: kubectl("get", "pods", "-l", "app=web", "-o", "name").stdout == "")


def test_server_side_apply(kubectl):
    """`apply --server-side` owns fields, and reports a conflict with another manager."""
    kubectl("apply", "--server-side", "--field-manager=one", "-f", "-", stdin=DEPLOYMENT)
    changed = DEPLOYMENT.replace("replicas: 2", "replicas: 4")
    refused = kubectl("apply", "--server-side", "--field-manager=two", "-f", "-", stdin=changed, code=1)
    assert 'conflict with "one"' in refused.stderr
    kubectl("apply", "--server-side", "--field-manager=two", "--force-conflicts", "-f", "-", stdin=changed)
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}").stdout == "4"


def test_a_pod_runs_and_is_described(kubectl):
    """A pod becomes Ready; describe shows its events, conditions and node."""
    kubectl("run", "p", "--image=img", "--restart=Never")
    kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=120s")
    assert kubectl("get", "pod", "p").stdout.splitlines()[1].split()[:4] == ["p", "1/1", "Running", "0"]
    described = kubectl("describe", "pod", "p").stdout
    for text in ("Successfully assigned", "Container started", "Node:", "Conditions:", "IP:"):
        assert text in described
    assert "Scheduled" in kubectl("get", "events").stdout
    kubectl("delete", "pod", "p")
    assert 'pods "p" not found' in kubectl("get", "pod", "p", code=1).stderr


@pytest.mark.parametrize("kind", MANIFESTS)
def test_the_verbs_on_a_kind(kubectl, kind: str):
    """create, get, describe, label, annotate, patch, edit, replace and delete work on every kind."""
    manifest = MANIFESTS[kind]
    created = kubectl("create", "-f", "-", stdin=manifest).stdout
    assert created.rstrip().endswith("/x created")
    assert kubectl("get", kind, "x").stdout.splitlines()[1].startswith("x ")
    assert "x" in kubectl("describe", kind, "x").stdout
    assert kubectl("label", kind, "x", "l=1").stdout.rstrip().endswith("labeled")
    assert kubectl("annotate", kind, "x", "n=1").stdout.rstrip().endswith("annotated")
    kubectl("patch", kind, "x", "--type=merge", "-p", '{"metadata":{"labels":{"l":"2"}}}')
    kubectl("patch", kind, "x", "--type=json", "-p", '[{"op":"add","path":"/metadata/labels/m","value":"3"}]')
    kubectl("edit", kind, "x", env={"KUBE_EDITOR": "sed -i s/m:.*/m:\\ edited/"})
    labels = json.loads(kubectl("get", kind, "x", "-o", "json").stdout)["metadata"]["labels"]
    assert labels == {"l": "2", "m": "edited"}
    again = kubectl("create", "-f", "-", stdin=manifest, code=1)
    assert "already exists" in again.stderr
    assert "deleted" in kubectl("delete", kind, "x").stdout
    assert "not found" in kubectl("get", kind, "x", code=1).stderr


def test_explain_and_api_resources(kubectl):
    """The schema and the resources are reported as the server serves them."""
    assert (
        "allocationMode"
        in kubectl(
            "explain", "resourceclaim.spec.devices.requests.exactly", "--api-version=resource.k8s.io/v1"
        ).stdout
    )
    listed = kubectl("api-resources", "--api-group=resource.k8s.io").stdout
    assert "deviceclasses" in listed
    assert "deploy" in kubectl("api-resources", "--api-group=apps").stdout


def test_devices_reach_a_pod(kubectl, request):
    """A pod with a claim of its own gets a device, and the claim says who holds it."""
    name = f"class-{abs(hash(request.node.name)) % 10**8}"
    kubectl("apply", "-f", "-", stdin=CLASS_AND_CLAIM % {"name": name})
    kubectl("wait", "--for=condition=Ready", "pod/user", "--timeout=120s")
    state = kubectl("get", "resourceclaim", "claim").stdout.splitlines()
    assert state[0].split() == ["NAME", "STATE", "AGE"]
    assert state[1].split()[1] == "allocated,reserved"
    assert "gpu-node" in kubectl("get", "resourceslices").stdout
    kubectl("delete", "pod", "user")
    kubectl("delete", "resourceclaim", "claim")
    kubectl("delete", "deviceclass", name)


def test_a_bad_manifest_is_refused_as_upstream_does(kubectl):
    """Validation errors come through kubectl word for word."""
    refused = kubectl("create", "-f", "-", stdin=BAD_POD, code=1)
    assert 'The Pod "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_Name"' in refused.stderr


def test_dry_run_on_the_server_writes_nothing(kubectl):
    """--dry-run=server answers as if it had written."""
    out = kubectl("create", "configmap", "dry", "--from-literal=a=b", "--dry-run=server").stdout
    assert out == "configmap/dry created (server dry run)\n"
    kubectl("get", "configmap", "dry", code=1)


def test_deleting_a_namespace_takes_all_in_it(kubectl):
    """A namespace is gone once everything in it is."""
    kubectl("create", "namespace", "doomed")
    kubectl("create", "configmap", "c", "--namespace=doomed")
    kubectl("delete", "namespace", "doomed", "--timeout=120s")
    assert "not found" in kubectl("get", "namespace", "doomed", code=1).stderr


OLDEST_AND_NEWEST = ("1.20", "1.36")


def columns(output: str) -> list[list[str]]:
    """The words of a table's rows, the head first."""
    return [line.split() for line in output.splitlines()]


def test_every_way_of_showing_pods(kubectl):
    """wide, name, jsonpath, columns, labels, sorting and selectors show what there is."""
    kubectl("run", "p", "--image=img", "--labels=app=web", "--port=80", "--env=A=1")
    kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=120s")
    [head, row] = columns(kubectl("get", "pods", "-o", "wide").stdout)
    assert head[5:] == ["IP", "NODE", "NOMINATED", "NODE", "READINESS", "GATES"]
    assert (row[0], row[5].startswith("10."), row[6] in {"node-1", "gpu-node"}) == ("p", True, True)
    assert kubectl("get", "pods", "-o", "name", "-l", "app in (web)").stdout == "pod/p\n"
    shown = kubectl("get", "pods", "-o", "custom-columns=N:.metadata.name,Q:.status.qosClass").stdout
    assert columns(shown) == [["N", "Q"], ["p", "BestEffort"]]
    shown = kubectl("get", "pods", "--sort-by=.metadata.name", "--show-labels", "-L", "app").stdout
    assert columns(shown)[1][-2:] == ["web", "app=web"]
    assert "No resources" in kubectl("get", "pods", "--field-selector=status.phase=Failed").stderr
    assert "field label not supported: a" in kubectl("get", "pods", "--field-selector=a=b", code=1).stderr
    assert kubectl("logs", "p").stdout == ""
    deleted = kubectl("delete", "pod", "p", "--grace-period=0", "--force")
    assert "force deleted" in deleted.stdout


def test_describe_reports_a_pod_and_its_node(kubectl):
    """The sections of describe are filled in; events name the container; the node counts what it holds."""
    manifest = DEPLOYMENT.replace("replicas: 2", "replicas: 1").replace(
        "ports:", "resources: {requests: {cpu: 250m, memory: 64Mi}, limits: {cpu: 500m}}, ports:"
    )
    kubectl("apply", "-f", "-", stdin=manifest)
    kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    pod = kubectl("describe", "pod", "-l", "app=web").stdout
    for text in (
        "Controlled By:",
        "QoS Class:",
        "Burstable",
        "not-ready:NoExecute",
        "ContainersReady",
        "250m",
    ):
        assert text in pod
    node = next(line.split()[1].partition("/")[0] for line in pod.splitlines() if line.startswith("Node:"))
    described = kubectl("describe", "node", node).stdout
    for text in ("cpu                250m (3%)", "Starting kubelet.", "HolderIdentity:", "MemoryPressure"):
        assert text in described
    assert "10.96.0.1" in kubectl("describe", "service", "kubernetes", "--namespace=default").stdout
    events = kubectl("get", "events", "--field-selector=reason=Created", "-o", "wide").stdout
    assert "spec.containers{c}" in events
    described = kubectl("describe", "deployment", "web").stdout
    for text in (
        "1 desired | 1 updated | 1 total | 1 available",
        "NewReplicaSetAvailable",
        "ScalingReplicaSet",
    ):
        assert text in described
    kubectl("expose", "deployment", "web", "--type=NodePort")
    listed = kubectl("get", "all").stdout
    for kind in ("pod/web-", "service/web", "deployment.apps/web", "replicaset.apps/web-"):
        assert kind in listed
    assert ":80" in kubectl("describe", "service", "web").stdout.partition("Endpoints:")[2].splitlines()[0]


@pytest.mark.parametrize("kubectl", OLDEST_AND_NEWEST, indirect=True)
def test_a_rollout_is_paused_restarted_and_undone(kubectl):
    """set env and resources, history, pause, resume, restart, and back to a revision."""
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    kubectl("rollout", "pause", "deployment/web")
    assert "already paused" in kubectl("rollout", "pause", "deployment/web", code=1).stderr
    kubectl("set", "env", "deployment/web", "A=b")
    kubectl("rollout", "resume", "deployment/web")
    kubectl("rollout", "restart", "deployment/web")
    kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    history = columns(kubectl("rollout", "history", "deployment/web").stdout)
    assert [row[0] for row in history[2:] if row] in (["1", "2"], ["1", "2", "3"])
    kubectl("rollout", "undo", "deployment/web", "--to-revision=1")
    container = kubectl(
        "get", "deployment", "web", "-o", "jsonpath={.spec.template.spec.containers[0]}"
    ).stdout
    assert "env" not in json.loads(container)


def test_apply_merges_three_ways(kubectl):
    """An apply removes fields it no longer has and keeps those of others, and diff shows this beforehand."""
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT.replace("replicas: 2", "replicas: 0"))
    kubectl("label", "deployment", "web", "by=another")
    other = DEPLOYMENT.replace("{name: web, labels: {app: web}}", "{name: web, labels: {l: m}}")
    other = other.replace("replicas: 2", "minReadySeconds: 1")
    assert "-  replicas: 0" in kubectl("diff", "-f", "-", stdin=other, code=1).stdout
    assert kubectl("apply", "-f", "-", stdin=other).stdout == "deployment.apps/web configured\n"
    deployment = json.loads(kubectl("get", "deployment", "web", "-o", "json").stdout)
    assert deployment["metadata"]["labels"] == {"by": "another", "l": "m"}
    assert deployment["spec"]["replicas"] == 1


@pytest.mark.parametrize("kubectl", OLDEST_AND_NEWEST, indirect=True)
def test_orphans_and_descendants(kubectl):
    """Deleting leaves the pods (orphan), or goes only after them (foreground); replace --force creates
    it again."""
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert "replaced" in kubectl("replace", "--force", "-f", "-", stdin=DEPLOYMENT).stdout
    kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    kubectl("delete", "deployment", "web", "--cascade=orphan")
    assert "replicaset.apps/web-" in kubectl("get", "rs", "-l", "app=web", "-o", "name").stdout
    kubectl("delete", "rs", "--all", "--cascade=foreground")
    assert kubectl("get", "rs,pods", "-o", "name").stdout == ""


@pytest.mark.parametrize("kubectl", OLDEST_AND_NEWEST, indirect=True)
def test_a_node_is_cordoned_tainted_and_drained(kubectl):
    """A drained node has no pods but those it must have, and takes none until it is uncordoned."""
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    try:
        kubectl("taint", "node", "node-1", "k=v:PreferNoSchedule")
        assert "evict" in kubectl("drain", "node-1", "--ignore-daemonsets", "--force").stdout
        row = next(row for row in columns(kubectl("get", "nodes").stdout) if row[0] == "node-1")
        assert row[1] == "Ready,SchedulingDisabled"
        kubectl("rollout", "status", "deployment/web", "--timeout=120s")
        where = kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}").stdout.split()
        assert set(where) == {"gpu-node"}
    finally:
        kubectl("uncordon", "node-1")
        kubectl("taint", "node", "node-1", "k-")
    assert kubectl("get", "node", "node-1", "-o", "jsonpath={.spec}").stdout == "{}"


def test_what_one_may(kubectl):
    """auth can-i asks the authorizer; somebody without a group is refused; the version is the server's."""
    assert kubectl("auth", "can-i", "delete", "nodes").stdout == "yes\n"
    assert "*.*" in kubectl("auth", "can-i", "--list").stdout
    refused = kubectl("get", "pods", "--as=system:anonymous", code=1).stderr
    assert 'User "system:anonymous" cannot list resource "pods"' in refused
    version = json.loads(kubectl("version", "-o", "json").stdout)
    assert version["serverVersion"]["gitVersion"].startswith("v1.36.")
    if version["clientVersion"]["minor"] != "20":
        assert "kubernetes-admin" in kubectl("auth", "whoami").stdout
    assert "is running at" in kubectl("cluster-info").stdout
    assert "resource.k8s.io/v1" in kubectl("api-versions").stdout.split()
    assert "v1 Endpoints is deprecated in v1.33+" in kubectl("get", "endpoints").stderr

"""A node takes or refuses pods."""

import dataclasses

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.allocation import DelegatedToDRA, admit
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.sysctls import forbidden_sysctl

NODE = {
    "metadata": {"name": "node-1", "labels": {"zone": "a", "size": "4"}},
    "spec": {},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "3", "example.com/gpu": "2"}},
}


def pod(requests=None, **spec):
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests or {}}}], **spec},
    }


def check(wanted, node=NODE, others=(), *, left=DelegatedToDRA.MAPPED):
    return admit(wanted, node, others, rules_of(delegated_to_dra=left))


def rules_of(minor=36, gates=None, **values):
    """The rules of a release, some of them otherwise."""
    rules = KubeletFeatures.of(FeatureGates(Version(minor), gates or {})).admission
    return dataclasses.replace(rules, **values)


@pytest.mark.parametrize(
    ("wanted", "others", "reason", "numbers"),
    [
        ({"cpu": "4"}, [], "", ""),
        ({"cpu": "4100m"}, [], "OutOfcpu", "requested: 4100, used: 0, capacity: 4000"),
        ({"cpu": "2"}, [{"cpu": "3"}], "OutOfcpu", "requested: 2000, used: 3000, capacity: 4000"),
        ({"memory": "9Gi"}, [], "OutOfmemory", "requested: 9663676416, used: 0, capacity: 8589934592"),
        ({}, [{}, {}, {}], "OutOfpods", "requested: 1, used: 3, capacity: 3"),
        (
            {"example.com/gpu": "3"},
            [],
            "OutOfexample.com/gpu",
            "requested: 3, used: 0, capacity: 2",
        ),
    ],
)
def test_resources_must_suffice(wanted, others, reason, numbers):
    """The rejection names the resource and upstream's numbers."""
    rejection = check(pod(wanted), others=[pod(other) for other in others])

    assert (rejection.reason if rejection else "") == reason
    assert rejection is None or numbers in rejection.message


_IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"


@pytest.mark.parametrize(
    ("name", "allocatable", "mapped", "fits"),
    [
        pytest.param("example.com/new", None, False, "nuam", id="unknown to the node"),
        pytest.param("example.com/new", "0", False, "a", id="left over from a plugin"),
        pytest.param("example.com/new", "0", True, "am", id="left over from a plugin, and a claim's"),
        pytest.param("example.com/new", "1", False, "nuam", id="offered by a plugin"),
        pytest.param(_IMPLICIT, None, False, "ua", id="implicit name"),
        pytest.param(_IMPLICIT, None, True, "uam", id="implicit name, and a claim's"),
        pytest.param("my-kubernetes.io/gpu", None, False, "ua", id="looks like Kubernetes' own"),
    ],
)
@pytest.mark.parametrize("left", DelegatedToDRA)
def test_extended_resources_may_be_devices_of_a_claim(name, allocatable, mapped, fits, left):
    """An extended resource missing on the node is left to claims as far as the release allows it."""
    letter = {"nothing": "n", "unnamed": "u", "absent": "a", "mapped": "m"}[left.value]
    amounts = {} if allocatable is None else {name: allocatable}
    node = {**NODE, "status": {"allocatable": {"pods": "1", **amounts}}}
    wanted = pod({name: "1"})
    if mapped:
        mapping = {"containerName": "c", "resourceName": name, "requestName": "r"}
        status = {"resourceClaimName": "x", "requestMappings": [mapping]}
        wanted["status"] = {"extendedResourceClaimStatus": status}
    rejection = check(wanted, node, left=left)

    assert (rejection is None) == (letter in fits)
    assert rejection is None or rejection.reason == f"OutOf{name}"


def test_init_containers_count_at_their_peak():
    """The largest init container counts if it is more than the rest; sidecars count in addition."""

    def sized(name, cpu, **more):
        return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}

    inits = [sized("side", "1", restartPolicy="Always"), sized("init", "3")]
    assert check(pod({"cpu": "1"}, initContainers=inits)) is None
    inits[1] = sized("init", "3500m")
    assert check(pod({"cpu": "1"}, initContainers=inits)).reason == "OutOfcpu"


def term(*expressions):
    node_affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": list(expressions)}]
        }
    }
    return {"affinity": {"nodeAffinity": node_affinity}}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"nodeSelector": {"zone": "a"}}, ""),
        ({"nodeSelector": {"zone": "b"}}, "NodeAffinity"),
        (term({"key": "zone", "operator": "In", "values": ["a", "b"]}), ""),
        (term({"key": "zone", "operator": "NotIn", "values": ["a"]}), "NodeAffinity"),
        (term({"key": "size", "operator": "Gt", "values": ["3"]}), ""),
        (term({"key": "size", "operator": "Lt", "values": ["3"]}), "NodeAffinity"),
        (term({"key": "gone", "operator": "DoesNotExist"}), ""),
        (term({"key": "gone", "operator": "Exists"}), "NodeAffinity"),
        (term(), "NodeAffinity"),
        ({"nodeName": "node-2"}, "NodeName"),
    ],
)
def test_the_pod_must_want_the_node(spec, reason):
    """Selectors, required affinity and the node's name."""
    rejection = check(pod(**spec))

    assert (rejection.reason if rejection else "") == reason
    assert rejection is None or rejection.message.startswith(f"Predicate {reason} failed: ")


@pytest.mark.parametrize(
    ("tolerations", "effect", "reason"),
    [
        ([], "NoExecute", "TaintToleration"),
        ([], "NoSchedule", ""),
        ([{"key": "bad", "operator": "Exists"}], "NoExecute", ""),
        ([{"operator": "Exists"}], "NoExecute", ""),
        ([{"key": "bad", "value": "x"}], "NoExecute", ""),
        ([{"key": "bad", "value": "y"}], "NoExecute", "TaintToleration"),
        ([{"key": "bad", "value": "x", "effect": "NoSchedule"}], "NoExecute", "TaintToleration"),
    ],
)
def test_no_execute_taints_must_be_tolerated(tolerations, effect, reason):
    """Other effects are the scheduler's business."""
    node = {**NODE, "spec": {"taints": [{"key": "bad", "value": "x", "effect": effect}]}}
    rejection = check(pod(tolerations=tolerations), node)

    assert (rejection.reason if rejection else "") == reason


def _with_port(port, address="", protocol="TCP", field="containers"):
    container = {"name": "c", "ports": [{"hostPort": port, "protocol": protocol, "hostIP": address}]}
    if field == "initContainers":
        container["restartPolicy"] = "Always"
    return pod(**{field: [container]})


@pytest.mark.parametrize(
    ("wanted", "taken", "refused"),
    [
        pytest.param(_with_port(80), _with_port(80), True, id="same port"),
        pytest.param(_with_port(80), _with_port(81), False, id="another port"),
        pytest.param(_with_port(80), _with_port(80, protocol="UDP"), False, id="another protocol"),
        pytest.param(_with_port(80, "1.1.1.1"), _with_port(80, "1.1.1.2"), False, id="another address"),
        pytest.param(_with_port(80, "1.1.1.1"), _with_port(80), True, id="any address"),
        pytest.param(_with_port(80), _with_port(80, field="initContainers"), True, id="port of a sidecar"),
    ],
)
def test_host_ports_must_be_free(wanted, taken, refused):
    """A pod whose host port another pod of the node has is refused."""
    rejection = check(wanted, others=[taken])
    text = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
    assert rejection == (("NodePorts", text) if refused else None)


def test_host_ports_of_sidecars_count_as_free_with_a_bug():
    """A kubelet with 132040 overlooks the ports of sidecars, as the scheduler of its release does."""
    others = [_with_port(80, field="initContainers")]
    assert admit(_with_port(80), NODE, others, rules_of(overlooks_sidecar_ports=True)) is None


@pytest.mark.parametrize(
    ("labels", "spec", "reason"),
    [
        ({"kubernetes.io/os": "windows"}, {}, "PodOSSelectorNodeLabelDoesNotMatch"),
        ({"kubernetes.io/os": "linux"}, {"os": {"name": "windows"}}, "PodOSNotSupported"),
        ({"kubernetes.io/os": "linux"}, {"os": {"name": "linux"}}, ""),
    ],
)
def test_pods_of_another_operating_system_are_refused(labels, spec, reason):
    """Nodes run Linux; a pod's label and its field may say that it does not."""
    wanted = pod({"cpu": "100"}, **spec)
    wanted["metadata"]["labels"] = labels
    assert check(wanted).reason == (reason or "OutOfcpu")


@pytest.mark.parametrize(
    ("minor", "gates", "refused"),
    [
        (27, {}, False),
        (28, {}, True),
        (28, {"SidecarContainers": True}, False),
        (32, {"SidecarContainers": False}, True),
        (32, {}, False),
        (36, {}, False),
    ],
)
def test_a_kubelet_without_the_gate_refuses_sidecars(minor, gates, refused):
    """Kubelets of 1.28 to 1.32 refuse pods with sidecars while SidecarContainers is off (KEP-753)."""
    wanted = pod(initContainers=[{"name": "i", "restartPolicy": "Always"}])
    rejection = admit(wanted, NODE, [], rules_of(minor, gates))
    text = 'Init container "i" may not have a non-default restartPolicy'
    assert rejection == (("InitContainerRestartPolicyForbidden", text) if refused else None)


@pytest.mark.parametrize(
    ("minor", "name", "spec", "text"),
    [
        (36, "kernel.shm_rmid_forced", {}, ""),
        (36, "kernel.msgmax", {}, 'forbidden sysctl: "kernel.msgmax" not allowlisted'),
        (31, "net.ipv4.tcp_rmem", {}, 'forbidden sysctl: "net.ipv4.tcp_rmem" not allowlisted'),
        (32, "net.ipv4.tcp_rmem", {}, ""),
        (32, "net/ipv4/tcp_rmem", {}, ""),
        (
            36,
            "net.ipv4.tcp_syncookies",
            {"hostNetwork": True},
            'forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled',
        ),
        (
            28,
            "kernel.shm_rmid_forced",
            {"hostIPC": True},
            'forbidden sysctl: "kernel.shm_rmid_forced" not allowed with host ipc enabled',
        ),
    ],
)
def test_sysctls_have_to_be_safe(minor, name, spec, text):
    """A node takes the kernel parameters that its release takes for safe, in namespaces of the pod's own."""
    rules = KubeletFeatures.of(FeatureGates(Version(minor))).admission
    wanted = pod(securityContext={"sysctls": [{"name": name, "value": "1"}]}, **spec)
    assert forbidden_sysctl(wanted, rules.safe_sysctls, rules.sysctl_namespaces) == text


@pytest.mark.parametrize(
    ("minor", "policy", "reported", "refused"),
    [
        (32, "Strict", None, False),
        (33, "Strict", None, True),
        (36, "Strict", {"supplementalGroupsPolicy": False}, True),
        (36, "Strict", {"supplementalGroupsPolicy": True}, False),
        (36, "Merge", None, False),
    ],
)
def test_strict_groups_need_a_node_that_reports_them(minor, policy, reported, refused):
    """From 1.33 on a node refuses supplementalGroupsPolicy Strict unless its status reports the feature."""
    node = {**NODE, "status": {**NODE["status"], "features": reported}}
    rejection = admit(pod(securityContext={"supplementalGroupsPolicy": policy}), node, [], rules_of(minor))
    text = "SupplementalGroupsPolicy=Strict is not supported in this node"
    assert rejection == (("SupplementalGroupsPolicyNotSupported", text) if refused else None)


@pytest.mark.parametrize(
    ("minor", "on", "resources", "refused"),
    [
        (33, False, {"requests": {"cpu": "1"}}, False),
        (34, False, {"requests": {"cpu": "1"}}, True),
        (36, False, {"limits": {"memory": "1Gi"}}, True),
        (36, True, {"limits": {"memory": "1Gi"}}, False),
        (36, False, {}, False),
    ],
)
def test_resources_of_whole_pods_need_the_gate(minor, on, resources, refused):
    """From 1.34 on a kubelet without PodLevelResources refuses pods that have resources as a whole."""
    rules = rules_of(minor, {"PodLevelResources": on})
    rejection = admit(pod(resources=resources), NODE, [], rules)
    text = "PodLevelResources feature gate is disabled"
    assert rejection == (("PodLevelResourcesNotSupported", text) if refused else None)


@pytest.mark.parametrize(
    ("minor", "gates", "refused"),
    [
        (35, {}, False),
        (35, {"NodeDeclaredFeatures": True}, True),
        (36, {}, False),
        (36, {"RestartAllContainersOnContainerExits": False}, True),
    ],
)
def test_pods_need_features_that_the_node_declares(minor, gates, refused):
    """A node that declares its features refuses a pod whose containers all restart together without that."""
    rules = KubeletFeatures.of(FeatureGates(Version(minor), gates)).admission
    container = {"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}
    rejection = admit(pod(containers=[container]), NODE, [], rules)
    text = "Pod requires node features that are not available: RestartAllContainersOnContainerExits"
    assert rejection == (("PodFeatureUnsupported", text) if refused else None)

"""A node takes or refuses pods."""

import pytest

from kubeskew.kubelet.allocation.admission import DelegatedToDRA, admit

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
    return admit(wanted, node, others, delegated_to_dra=left)


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
    """The largest init container counts if it is more than the rest; sidecars count beside."""

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

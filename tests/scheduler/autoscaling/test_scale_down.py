"""Scale-down: the places where a node's pods would go, and what keeps them."""

from datetime import UTC, datetime

import pytest
from dynamic_cluster import one_node
from scheduling_cluster import RESOURCE, Cluster, extended
from simulated_cluster import OWNED, snapshot_of

from kubeskew.apimachinery.client.refs import NODES, PODS
from kubeskew.scheduler.autoscaling.scale_down import (
    DrainContext,
    Outcome,
    UnknownNodeError,
    drainable,
    simulate_removal,
)
from kubeskew.scheduler.framework.pod_info import PodInfo

pytestmark = pytest.mark.looptime

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = "2026-01-01T11:59:50Z"
LONG_AGO = "2026-01-01T00:00:00Z"
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
HOST_PATH = {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}
BUDGET = {
    "metadata": {"name": "b", "namespace": "d"},
    "spec": {"selector": {"matchLabels": {"app": "a"}}},
    "status": {"disruptionsAllowed": 0},
}


def pod(namespace="d", owner="ReplicaSet", phase="Running", annotations=None, spec=None, **metadata):
    references = [{**OWNED[0], "kind": owner}] if owner else []
    about = {"name": "p", "namespace": namespace, "uid": "p", "labels": {"app": "a"}, **metadata}
    about |= {"annotations": annotations or {}, "ownerReferences": references}
    spec = {"containers": [], **(spec or {})}
    return PodInfo({"metadata": about, "spec": spec, "status": {"phase": phase}})


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        (pod(), (Outcome.MOVE, "")),
        (pod(owner=""), (Outcome.BLOCK, "NotReplicated")),
        (pod(owner="Workflow"), (Outcome.BLOCK, "NotReplicated")),
        (pod(owner="", annotations={SAFE: "true"}), (Outcome.MOVE, "")),
        (pod(annotations={SAFE: "false"}), (Outcome.BLOCK, "NotSafeToEvictAnnotation")),
        (pod(annotations={"kubernetes.io/config.mirror": "x"}, owner=""), (Outcome.SKIP, "")),
        (pod(owner="DaemonSet"), (Outcome.MOVE, "")),
        (pod(owner="", phase="Failed"), (Outcome.MOVE, "")),
        (pod(owner="", phase="Succeeded", spec={"restartPolicy": "Never"}), (Outcome.MOVE, "")),
        (pod(spec=HOST_PATH), (Outcome.BLOCK, "LocalStorageRequested")),
        (pod(spec={"volumes": [{"name": "v", "emptyDir": {}}]}), (Outcome.BLOCK, "LocalStorageRequested")),
        (pod(spec={"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]}), (Outcome.MOVE, "")),
        (pod(spec=HOST_PATH, annotations={f"{SAFE}-local-volumes": "u,v"}), (Outcome.MOVE, "")),
        (pod("kube-system"), (Outcome.BLOCK, "UnmovableKubeSystemPod")),
        (pod("kube-system", creationTimestamp=LONG_AGO), (Outcome.MOVE, "")),
        (pod(owner="", deletionTimestamp=LONG_AGO), (Outcome.SKIP, "")),
        (pod(owner="", deletionTimestamp=LATER), (Outcome.BLOCK, "NotReplicated")),
    ],
)
def test_rules_are_the_autoscalers(moved, expected):
    """The first rule that says something about a pod decides, with upstream's name of the reason."""
    verdict = drainable(moved, DrainContext(NOW))
    assert (verdict.outcome, verdict.reason) == expected


@pytest.mark.parametrize(("allowed", "outcome"), [(0, Outcome.BLOCK), (1, Outcome.MOVE)])
def test_a_budget_keeps_pods(allowed, outcome):
    """Pods stay whose budget allows no disruption; those of other namespaces do not count."""
    budget = {**BUDGET, "status": {"disruptionsAllowed": allowed}}
    assert drainable(pod(), DrainContext(NOW, [budget])).outcome is outcome
    assert drainable(pod("other"), DrainContext(NOW, [budget])).outcome is Outcome.MOVE


def test_a_pod_whose_controller_is_gone_stays():
    """Nobody would start it again elsewhere."""
    verdict = drainable(pod(), DrainContext(NOW, has_owner=lambda *_: False))
    assert (verdict.outcome, verdict.reason) == (Outcome.BLOCK, "ControllerNotFound")
    assert drainable(pod(), DrainContext(NOW, has_owner=lambda *_: True)).outcome is Outcome.MOVE


async def with_pod(cluster, name="p0", node="n0", owned=True, **more):
    """Creates a pod on a node, with its claim allocated there."""
    made = await cluster.pod(name, nodeName=node, **more)
    if owned:
        made["metadata"]["ownerReferences"] = OWNED
        made = await cluster.client.update(PODS, made)
    return made


async def allocated(cluster, name, pod, node="n0", device="gpu-0"):
    result = {"request": "r", "driver": "gpu.example.com", "pool": node, "device": device}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    await cluster.set_claim_status(
        name,
        allocation={"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}},
        reservedFor=[{"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}],
    )


async def removal(cluster, node="n0"):
    """Returns: possible, node by pod, reason by pod."""
    async with snapshot_of(cluster) as snapshot:
        answer = simulate_removal(snapshot, node, DrainContext(NOW))
    moved = {pod.name: where for pod, where in answer.moved}
    return answer.possible, moved, {pod.name: reason for pod, reason in answer.stuck}


async def claiming_pod(devices):
    """A pod with a device on n0, and a node with some devices next to it."""
    cluster = await one_node(devices=1)
    await cluster.node("n1", devices=devices)
    await cluster.claim()
    made = await with_pod(cluster, resourceClaims=[{"name": "x", "resourceClaimName": "c0"}])
    await allocated(cluster, "c0", made)
    return cluster


async def test_a_pods_devices_are_found_elsewhere():
    """The claim of a removed pod is deallocated in the simulation, and allocated again where the pod goes."""
    assert await removal(await claiming_pod(devices=1)) == (True, {"p0": "n1"}, {})


async def test_a_pod_without_devices_elsewhere_keeps_the_node():
    """The reason is the scheduler's; the node itself is no place either."""
    possible, moved, stuck = await removal(await claiming_pod(devices=0))

    assert (possible, moved) == (False, {})
    assert "cannot allocate all claims" in stuck["p0"]


async def test_a_claim_that_a_pod_elsewhere_uses_too_keeps_the_node():
    """A claim that a pod elsewhere uses is not deallocated, and so its devices stay where they are."""
    cluster = await claiming_pod(devices=1)
    other = await with_pod(cluster, "p1", "n1")
    claim = (await cluster.claims())[0]
    users = [
        *claim["status"]["reservedFor"],
        {"resource": "pods", "name": "p1", "uid": other["metadata"]["uid"]},
    ]
    await cluster.set_claim_status("c0", reservedFor=users)
    possible, _, stuck = await removal(cluster)

    assert not possible
    assert "resourceclaim not available on the node" in stuck["p0"]


@pytest.mark.parametrize("devices", [1, 2])
async def test_devices_behind_extended_resources_are_found_elsewhere(devices):
    """The claim that the scheduler made for the pod goes with it, if there are devices enough."""
    cluster = await extended()
    await cluster.node("n1", devices=devices)
    made = await with_pod(cluster, requests={RESOURCE: "2"})
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}]
    owner = {**OWNED[0], "apiVersion": "v1", "kind": "Pod", "name": "p0", "uid": made["metadata"]["uid"]}
    mark = {"resource.kubernetes.io/extended-resource-claim": "true"}
    await cluster.claim("p0-extended", requests, ownerReferences=[owner], annotations=mark)
    await allocated(cluster, "p0-extended", made)
    possible, moved, _ = await removal(cluster)

    assert possible is (devices == 2)
    assert moved == ({"p0": "n1"} if possible else {})


async def test_pods_compete_for_the_room_that_is_left():
    """Two pods of which only one fits elsewhere keep the node."""
    cluster = Cluster()
    await cluster.node()
    await cluster.node("n1", cpu="3")
    for name in ("p0", "p1"):
        await with_pod(cluster, name, requests={"cpu": "2"})
    possible, moved, stuck = await removal(cluster)

    assert not possible
    assert [*moved.values()] == ["n1"]
    assert len(stuck) == 1


async def test_a_blocked_pod_stands_in_the_way():
    """Each pod that must not be moved is reported, the others are placed all the same."""
    cluster = Cluster()
    await cluster.node()
    await cluster.node("n1")
    await with_pod(cluster, "alone", owned=False)
    await with_pod(cluster, "owned")

    assert await removal(cluster) == (
        False,
        {"owned": "n1"},
        {"alone": "default/alone is not replicated (NotReplicated)"},
    )


async def test_an_annotation_of_the_node_forbids_its_removal():
    """Even an empty node stays with scale-down-disabled."""
    cluster = Cluster()
    await cluster.node()
    node = await cluster.client.get(NODES, "n0")
    node["metadata"]["annotations"] = {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}
    await cluster.client.update(NODES, node)

    assert await removal(cluster) == (False, {}, {})


async def test_an_unknown_node_is_reported():
    """A name that no node has is an error of its own."""
    cluster = Cluster()
    with pytest.raises(UnknownNodeError):
        await removal(cluster, "gone")


async def test_a_simulation_leaves_the_snapshot_as_it_was():
    """The pod is on its node, and the node without the taint, once the answer is there."""
    cluster = await claiming_pod(devices=1)
    async with snapshot_of(cluster) as snapshot:
        before = snapshot.node("n0").node
        for _ in range(2):
            answer = simulate_removal(snapshot, "n0", DrainContext(NOW))
            assert answer.possible
        assert snapshot.node("n0").node is before
        assert [pod.name for pod in snapshot.node("n0").pods.values()] == ["p0"]

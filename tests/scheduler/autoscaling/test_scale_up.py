"""Scale-up: the number of nodes of each template that make pending pods fit, and the node of each pod."""

import dataclasses

import pytest
from dynamic_cluster import one_node
from scheduling_cluster import Cluster
from simulated_cluster import OWNED, pods_with_claims, scale_up, template

from kubeskew.scheduler.autoscaling.estimator import groups, in_order
from kubeskew.scheduler.autoscaling.scale_up import Option, least_waste
from kubeskew.scheduler.autoscaling.snapshot import NodeTemplate
from kubeskew.scheduler.framework.pod_info import PodInfo

pytestmark = pytest.mark.looptime


def pod(name="p", *, cpu="1", owner="rs", labels=None, **spec):
    """Returns a pod of a controller."""
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    references = [{**OWNED[0], "uid": owner}] if owner else []
    metadata = {
        "name": name,
        "namespace": "d",
        "uid": name,
        "labels": labels or {},
        "ownerReferences": references,
    }
    return PodInfo({"metadata": metadata, "spec": {"containers": [container], **spec}})


def names(grouped):
    return [[pod.name for pod in group] for group in grouped]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([pod("a"), pod("b")], [["a", "b"]]),
        ([pod("a", owner=""), pod("b", owner="")], [["a"], ["b"]]),
        ([pod("a"), pod("b", owner="other")], [["a"], ["b"]]),
        ([pod("a"), pod("b", cpu="2"), pod("c")], [["a", "c"], ["b"]]),
        ([pod("a", labels={"x": "1"}), pod("b")], [["a"], ["b"]]),
        ([pod("a", hostname="a"), pod("b", hostname="b")], [["a", "b"]]),
        (
            [pod(n, volumes=[{"name": f"token-{n}", "projected": {}}]) for n in "ab"],
            [["a", "b"]],
        ),
        ([pod(n, volumes=[{"name": n, "emptyDir": {}}]) for n in "ab"], [["a"], ["b"]]),
    ],
)
def test_pods_are_grouped_as_the_autoscaler_does(pods, expected):
    """Pods of one controller with equal labels and specs are one group, even if they differ by chance."""
    assert names(groups(pods)) == expected


def test_a_controller_has_at_most_ten_groups():
    """Pods that are like none of a controller's ten groups stand alone, even if they are alike."""
    different = [pod(f"p{n}", cpu=str(n + 1)) for n in range(10)]
    assert names(groups([*different, pod("x", cpu="99"), pod("y", cpu="99")]))[10:] == [["x"], ["y"]]


def test_the_largest_pods_come_first():
    """Groups are ordered by the share of a node that a pod takes; equal ones keep their order."""
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}}
    grouped = [[pod("a")], [pod("b", cpu="3")], [pod("c")]]
    assert names(in_order(grouped, NodeTemplate("n", node))) == [["b"], ["a"], ["c"]]


def test_the_template_that_wastes_least_is_chosen():
    """The smaller of two nodes is better for a small pod; of equal templates the first one is chosen."""

    def option(name, cpu):
        status = {"capacity": {"cpu": cpu, "memory": "8Gi"}}
        return Option(NodeTemplate(name, {"metadata": {"name": name}, "status": status}), 1, [pod()])

    chosen = least_waste([option("large", "8"), option("small", "2"), option("same", "2")])
    assert chosen.template.name == "small"


async def test_devices_decide_how_many_nodes():
    """Five pods with a device each need three nodes of two devices, the first pods on the first node."""
    cluster = Cluster()
    await cluster.device_class()
    await pods_with_claims(cluster, 5)
    nodes, placed, rejected = await scale_up(cluster, await template(cluster, devices=2))

    assert nodes == {"gpu": ["gpu-1", "gpu-2", "gpu-3"]}
    assert placed == {"p0": "gpu-1", "p1": "gpu-1", "p2": "gpu-2", "p3": "gpu-2", "p4": "gpu-3"}
    assert rejected == {}


async def test_nodes_that_are_there_are_filled_first():
    """Nodes are added only for what does not fit the others."""
    cluster = await one_node(devices=2)
    await pods_with_claims(cluster, 3)
    nodes, placed, _ = await scale_up(cluster, await template(cluster, devices=2))

    assert nodes == {"gpu": ["gpu-1"]}
    assert sorted(placed.values()) == ["gpu-1", "n0", "n0"]


async def test_no_more_nodes_than_allowed():
    """With a limit the pods that are left get it as their reason."""
    cluster = Cluster()
    await cluster.device_class()
    await pods_with_claims(cluster, 3)
    nodes, placed, rejected = await scale_up(cluster, await template(cluster, devices=1), most=2)

    assert len(nodes["gpu"]) == len(placed) == 2
    (reasons,) = rejected.values()
    assert reasons[-1] == "gpu: no more than 2 nodes may be added"


async def test_reasons_are_the_schedulers():
    """A pod that fits nothing is informed why: of the nodes there are, and of each template."""
    cluster = await one_node()
    await cluster.pod(requests={"cpu": "100"})
    tainted = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
    nodes, _, rejected = await scale_up(
        cluster, await template(cluster, "small"), await template(cluster, "tainted", taints=tainted)
    )
    assert nodes == {"small": [], "tainted": []}
    assert rejected["p0"] == [
        "0/1 nodes are available: 1 Insufficient cpu.",
        "small: Insufficient cpu",
        "tainted: node(s) had untolerated taint(s)",
    ]


async def test_each_pod_goes_to_the_template_that_has_what_it_needs():
    """Rounds go on until all pods have a node, each with the best template for the pods that are left."""
    cluster = Cluster()
    await cluster.device_class()
    await pods_with_claims(cluster, 1)
    await cluster.pod("large", requests={"cpu": "12"})
    nodes, placed, rejected = await scale_up(
        cluster, await template(cluster, "gpu", devices=1), await template(cluster, "large", cpu="16")
    )
    assert nodes == {"gpu": ["gpu-1"], "large": ["large-1"]}
    assert placed == {"p0": "gpu-1", "large": "large-1"}
    assert not rejected


async def test_pods_that_keep_apart_get_a_node_each():
    """Anti-affinity over host names is decided by the scheduler's plugin, for fictional nodes, too."""
    cluster = Cluster()
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for number in range(3):
        await cluster.pod(f"p{number}", labels={"app": "a"}, affinity=apart)
    nodes, _, rejected = await scale_up(cluster, await template(cluster))

    assert len(nodes["gpu"]) == 3
    assert not rejected


async def test_a_node_that_helped_nobody_leaves_nothing():
    """A pod that fits a node alone, and not next to those before it, leaves no pod of a DaemonSet behind."""
    cluster = Cluster()
    await cluster.pod("large", cpu="3", labels={"app": "a"})
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    await cluster.pod("small", cpu="1", affinity=apart)
    made = await template(cluster, "cpu", labels={"zone": "z"})
    agent = {
        "metadata": {"name": "agent", "namespace": "kube-system"},
        "spec": {"containers": [{"name": "c"}]},
    }
    nodes, placed, rejected = await scale_up(cluster, dataclasses.replace(made, pods=[agent]))

    assert (nodes, placed) == ({"cpu": ["cpu-1"]}, {"large": "cpu-1"})
    assert list(rejected) == ["small"]


async def test_pods_that_spread_over_hosts_get_as_many_nodes_as_they_need():
    """A constraint over host names is kept by the pods that are placed."""
    cluster = Cluster()
    constraint = {
        "topologyKey": "kubernetes.io/hostname",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    for number in range(6):
        await cluster.pod(
            f"p{number}", {"cpu": "2"}, labels={"app": "a"}, topologySpreadConstraints=[constraint]
        )
    nodes, placed, rejected = await scale_up(cluster, await template(cluster))

    assert not rejected
    counts = [[*placed.values()].count(node) for node in nodes["gpu"]]
    assert sum(counts) == 6
    assert max(counts) <= 2


async def test_a_gated_pod_is_not_placed():
    """Pods that wait for their scheduling gates are listed with these; no node is added for them."""
    cluster = Cluster()
    await cluster.pod(schedulingGates=[{"name": "example.com/wait"}])
    nodes, _, rejected = await scale_up(cluster, await template(cluster))

    assert nodes == {"gpu": []}
    assert "waiting for scheduling gates" in rejected["p0"][0]


async def test_fresh_nodes_avoid_names_that_are_taken():
    """A node that is there keeps its name to itself."""
    cluster = Cluster()
    await cluster.node("gpu-1", cpu="0")
    await cluster.pod(requests={"cpu": "1"})
    nodes, _, _ = await scale_up(cluster, await template(cluster))

    assert nodes == {"gpu": ["gpu-2"]}


def test_a_fresh_node_forgets_passing_taints_and_who_it_was():
    """Name and host name are new, taints of a node's passing state are left out, others stay."""
    taints = [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
        {"key": "a", "effect": "NoExecute"},
    ]
    node = {
        "metadata": {"name": "n", "uid": "u", "labels": {"kubernetes.io/hostname": "n", "zone": "a"}},
        "spec": {"taints": taints},
    }
    fresh = NodeTemplate("n", node, slices_of="origin").fresh_node("n-1")

    assert fresh["metadata"] == {
        "name": "n-1",
        "uid": "n-1",
        "labels": {"kubernetes.io/hostname": "n-1", "zone": "a"},
        "annotations": {"autoscaling.k8s.io/node-resource-slices": "origin"},
    }
    assert fresh["spec"]["taints"] == taints[1:]

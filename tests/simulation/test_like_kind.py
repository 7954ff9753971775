"""Clusters that look as kind's do: a control-plane node with static pods, add-ons, a default StorageClass."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from kubeskew.apimachinery.client.refs import NODES, PODS, STORAGE_CLASSES
from kubeskew.cluster.config import ClusterSpec, parse
from kubeskew.cluster.failures import UserError
from kubeskew.kubelet.pods.pod_manager import MIRROR, mirror_of
from kubeskew.simulation.pytest_plugin import MakesClusters
from kubeskew.simulation.simulated_cluster import SimulatedCluster

NODE = "kind-control-plane"
STATIC = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]


async def pods(cluster: SimulatedCluster) -> dict[str, Any]:
    """Returns the pods of all namespaces by name."""
    return {pod["metadata"]["name"]: pod for pod in (await cluster.client.list(PODS))["items"]}


async def until(cluster: SimulatedCluster, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Returns the pods once something is so of them; raises TimeoutError."""
    async with asyncio.timeout(60):
        while True:
            if holds(found := await pods(cluster)):
                return found
            await asyncio.sleep(0.5)


def run(found: dict[str, Any]) -> bool:
    """Decides whether all that kind has runs."""
    kinds = {name.removesuffix(f"-{NODE}") for name in found} & {*STATIC}
    running = all(pod["status"].get("phase") == "Running" for pod in found.values())
    return running and kinds == {*STATIC} and len(found) == len(STATIC) + 2 + 2 * 2 + 2


def tag(found: dict[str, Any], component: str) -> str:
    """Returns the tag of a static pod's image."""
    return str(found[f"{component}-{NODE}"]["spec"]["containers"][0]["image"].rpartition(":")[2])


@pytest.mark.parametrize(
    ("version", "etcd", "coredns"),
    [("1.31", "3.5.24-0", "v1.11.3"), ("1.34", "3.6.5-0", "v1.12.1"), ("1.36", "3.6.8-0", "v1.14.2")],
)
def test_versions_of_kubeadm(simulated_cluster: MakesClusters, version: str, etcd: str, coredns: str):
    """Etcd and CoreDNS have the versions of the newest kubeadm of the minor (app/constants/constants.go)."""
    cluster = simulated_cluster(version=version, like="kind", nodes=[{"name": "kind-worker"}])

    async def story() -> None:
        found = await until(cluster, run)
        images = [pod["spec"]["containers"][0]["image"] for pod in found.values()]
        assert tag(found, "etcd") == etcd
        assert f"registry.k8s.io/coredns/coredns:{coredns}" in images

    cluster.run(story())


def test_a_cluster_like_kind(simulated_cluster: MakesClusters):
    """The pods of kind run; images show versions, also after an upgrade; a deleted mirror is back."""
    cluster = simulated_cluster(version="1.35", like="kind", nodes=[{"name": "kind-worker"}])

    async def story() -> None:
        found = await until(cluster, run)
        assert tag(found, "kube-scheduler").startswith("v1.35.")
        assert tag(found, "etcd") == "3.6.6-0"
        node = await cluster.client.get(NODES, NODE)
        assert node["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] == ""
        assert node["spec"]["taints"] == [
            {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
        ]
        (standard,) = (await cluster.client.list(STORAGE_CLASSES))["items"]
        assert standard["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true"

        await cluster.upgrade("1.36", "apiserver", "controller-manager")
        after = await until(cluster, lambda now: run(now) and tag(now, "kube-apiserver").startswith("v1.36."))
        assert tag(after, "kube-controller-manager") == tag(after, "kube-apiserver")
        same = f"kube-scheduler-{NODE}"
        assert after[same]["metadata"]["uid"] == found[same]["metadata"]["uid"], "it has not changed"

        await cluster.client.delete(PODS, same, "kube-system")
        uid = after[same]["metadata"]["uid"]
        await until(cluster, lambda now: run(now) and now[same]["metadata"]["uid"] != uid)

    cluster.run(story())


def test_a_mirror_pod_is_what_a_node_may_create():
    """A mirror is owned by its node and shows the hash of its manifest, which another manifest changes."""
    manifest = {"metadata": {"name": "etcd", "namespace": "kube-system"}, "spec": {"containers": []}}

    mirror = mirror_of(manifest, "Node-1", "uid-1", "now")
    other = mirror_of({**manifest, "spec": {"containers": [{"name": "a"}]}}, "Node-1", "uid-1", "now")

    assert mirror["metadata"]["name"] == "etcd-node-1"
    assert mirror["spec"]["nodeName"] == "Node-1"
    assert mirror["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "Node-1", "uid": "uid-1", "controller": True}
    ]
    assert mirror["metadata"]["annotations"][MIRROR] != other["metadata"]["annotations"][MIRROR]


@pytest.mark.parametrize(
    ("text", "nodes", "taints"),
    [("{like: kind}", 4, 1), ("{like: kind, nodes: []}", 1, 0), ("{like: null}", 3, 0)],
)
def test_the_node_of_the_control_plane(text: str, nodes: int, taints: int):
    """`like: kind` adds a node, which takes other pods only if it is alone."""
    spec = parse(yaml.safe_load(text), "file")

    assert len(spec.nodes) == nodes
    assert [len(node.taints) for node in spec.nodes if node.control_plane] == ([taints] if nodes != 3 else [])


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("{like: kind}", True),
        ("{like: kind, metricsServer: false}", False),
        ("{metricsServer: true, ha: 2}", True),
        ("{}", False),
    ],
)
def test_whether_there_is_a_metrics_server(text: str, there: bool):
    """The key of the file says so; otherwise there is one in clusters like kind."""
    assert parse(yaml.safe_load(text), "file").metrics_server is there


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{like: kid}", "file: like: expected kind, found 'kid'; did you mean kind"),
        ("{metricsServer: 1}", "file: metricsServer: expected true or false, found 1"),
        ("{like: kind, ha: 2}", "file: like kind has one API server: leave out ha, or like"),
    ],
)
def test_what_cannot_be_like_kind_is_refused(text: str, why: str):
    """An unknown example, and several API servers, are reported in a line."""
    with pytest.raises(UserError, match=why):
        parse(yaml.safe_load(text), "file")


def test_flags_make_a_cluster_like_kind():
    """`--like kind --nodes 2` has three nodes; a cluster file's `like` holds next to flags."""
    flags = ClusterSpec().with_flags(None, {}, 2, None, 0, like="kind")
    both = parse({"like": "kind"}, "file").with_flags(None, {}, 1, None, 0)

    assert [node.name for node in flags.nodes] == [NODE, "node-1", "node-2"]
    assert [node.name for node in both.nodes] == [NODE, "node-1"]

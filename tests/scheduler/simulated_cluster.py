"""A scheduler that only looks: its plugins simulate on what its informers have."""

import contextlib

from scheduling_cluster import DRIVER, Cluster

from kubeskew.apimachinery.client.refs import NODES
from kubeskew.scheduler.autoscaling.scale_up import MOST_NODES, ScaleUp
from kubeskew.scheduler.autoscaling.snapshot import ClusterSnapshot, NodeTemplate
from kubeskew.scheduler.framework.pod_info import PodInfo

OWNED = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}]


@contextlib.asynccontextmanager
async def snapshot_of(cluster):
    """Gives a snapshot of the cluster; nothing is scheduled."""
    cluster.service.start()
    await cluster.service.synced()
    try:
        yield ClusterSnapshot(
            cluster.service.scheduler.profiles, cluster.service.filters, cluster.service.cache
        )
    finally:
        await cluster.service.stop()


async def template(cluster, name="gpu", devices=0, labels=None, taints=(), **allocatable):
    """Returns a template; its slices are published under a node name of its own."""
    resources = {"cpu": "4", "memory": "8Gi", "pods": "110", **allocatable}
    node = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": [*taints]},
        "status": {"allocatable": resources, "capacity": resources},
    }
    origin = f"template-node-for-{name}"
    if devices:
        spec = {
            "driver": DRIVER,
            "nodeName": origin,
            "pool": {"name": origin, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{i}"} for i in range(devices)],
        }
        await cluster.client.create(cluster.refs.slices, {"metadata": {"name": origin}, "spec": spec})
    return NodeTemplate(name, node, slices_of=origin if devices else "")


async def pods_with_claims(cluster, count, owner=True):
    """Creates pods that have a claim of one device each."""
    for number in range(count):
        await cluster.claim(f"c{number}")
        entry = [{"name": "x", "resourceClaimName": f"c{number}"}]
        await cluster.pod(f"p{number}", resourceClaims=entry)


def pending(cluster):
    return [PodInfo(pod) for pod in cluster.service.pods() if not pod["spec"].get("nodeName")]


async def scale_up(cluster, *templates, most=MOST_NODES):
    """Returns the answer: nodes by template, node by pod, reasons by pod."""
    async with snapshot_of(cluster) as snapshot:
        answer = ScaleUp(snapshot, templates, lambda _: None, most).run(pending(cluster))
    placed = {pod.name: node for pod, node in answer.placed.values()}
    return answer.nodes, placed, {pod.name: reasons for pod, reasons in answer.rejected}


async def remove_node(cluster, name):
    await cluster.client.delete(NODES, name)


def cluster_of(version="1.36", **gates):
    return Cluster(version, **gates)

"""Scale-up as `kubeskew simulate` does it: pods of a hundred groups with a claim each, half of the nodes."""

import time

from benchmarks.row import Row
from kubeskew.apimachinery.client.refs import NODES, PODS, dra_refs
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import DEFAULT_VERSION
from kubeskew.cluster.autoscaling.manifests import Manifests
from kubeskew.cluster.autoscaling.simulator import Source, scale_up
from kubeskew.scheduler.autoscaling.snapshot import NodeTemplate

DRIVER = "gpu.example.com"
_GROUPS = 100
_DEVICES = 5  # of a node
_ORIGIN = "template-node-for-new"


def _node(name: str) -> Object:
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    status = {"allocatable": amounts, "capacity": amounts}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"apiVersion": NODES.api_version, "kind": NODES.kind, "metadata": metadata, "status": status}


def _slice(node: str) -> Object:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": f"gpu-{number}"} for number in range(_DEVICES)]
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    ref = dra_refs(DEFAULT_VERSION).slices
    return {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": {"name": node}, "spec": spec}


def _pod(number: int) -> Object:
    group = number % _GROUPS
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"rs-{group}", "uid": f"rs-{group}"}
    requests = {"cpu": f"{100 + group}m", "memory": "1Gi"}
    spec = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
    }
    metadata = {"name": f"pod-{number:05}", "ownerReferences": [{**owner, "controller": True}]}
    claim = {"name": "gpu", "resourceClaimName": f"claim-{number:05}"}
    status = {"resourceClaimStatuses": [claim]}
    head = {"apiVersion": PODS.api_version, "kind": PODS.kind}
    return {**head, "metadata": metadata, "spec": spec, "status": status}


def _claim(number: int) -> Object:
    ref, name = dra_refs(DEFAULT_VERSION).claims, f"pod-{number:05}"
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": name,
        "uid": f"Pod/default/{name}",
        "controller": True,
    }
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    return {
        "apiVersion": ref.api_version,
        "kind": ref.kind,
        "metadata": {"name": f"claim-{number:05}", "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }


def _source(nodes: int, pods: int) -> Source:
    gates = FeatureGates(DEFAULT_VERSION)
    manifests = Manifests(DEFAULT_VERSION, gates)
    ref = dra_refs(DEFAULT_VERSION).device_classes
    selectors = [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]
    spec = {"selectors": selectors}
    manifests.add(
        {"apiVersion": ref.api_version, "kind": ref.kind, "metadata": {"name": "gpu"}, "spec": spec}
    )
    for name in (_ORIGIN, *(f"node-{number:04}" for number in range(nodes))):
        manifests.add(_slice(name))
        if name != _ORIGIN:
            manifests.add(_node(name))
    for number in range(pods):
        manifests.add(_pod(number))
        manifests.add(_claim(number))
    return Source(DEFAULT_VERSION, gates, None, manifests)


async def scale_up_row(nodes: int, pods: int) -> Row:
    """Measures one scale-up, without the reading of manifests."""
    source = _source(nodes, pods)
    template = NodeTemplate("new", _node("new"), slices_of=_ORIGIN)
    began = time.process_time()
    answer = await scale_up(source, [template], pods, lambda _: None)
    spent = time.process_time() - began
    if len(answer.placed) != pods:
        raise RuntimeError(f"{pods - len(answer.placed)} pods found no node")
    new = len(answer.nodes["new"])
    what = f"simulate scale-up: {pods:,} pods in {_GROUPS} groups, a claim each, {nodes:,} nodes"
    return Row(what, "-", "≤ 60 s of CPU", f"{spent:.1f} s", f"{new:,} nodes of {_DEVICES} devices added")

"""`/stats/summary`: what there is to say of resources where nothing uses any."""

from typing import Any

from apimachinery.clock import timestamp
from kubelet import pod_spec
from kubelet.server.view import NodeView

Object = dict[str, Any]


def summary(view: NodeView) -> Object:
    """A stats.Summary: zero usage of node, pods and containers."""
    now = timestamp(view.clock.now())
    pods = []
    for pod in view.pods():
        sandbox = view.runtime.sandbox(pod_spec.uid_of(pod))
        running = sandbox.running(view.clock.now()) if sandbox is not None else []
        reference = {
            "name": pod_spec.name_of(pod),
            "namespace": pod_spec.namespace_of(pod),
            "uid": pod_spec.uid_of(pod),
        }
        containers = [
            {"name": one.name, "startTime": timestamp(one.started_at), **_usage(now)} for one in running
        ]
        pods.append({"podRef": reference, "startTime": now, "containers": containers, **_usage(now)})
    return {"node": {"nodeName": view.name, "startTime": now, **_usage(now)}, "pods": pods}


def _usage(now: str) -> Object:
    return {
        "cpu": {"time": now, "usageNanoCores": 0, "usageCoreNanoSeconds": 0},
        "memory": {"time": now, "usageBytes": 0, "workingSetBytes": 0, "rssBytes": 0},
    }

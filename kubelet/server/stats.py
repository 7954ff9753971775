"""`/stats/summary`: the usage of node, pods and containers, as a Summary of stats/v1alpha1."""

from datetime import datetime

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.usage import requested
from kubeskew.kubelet.server.usage import Usage, measured_at, node_usage, pods_in_use
from kubeskew.kubelet.server.view import NodeView


def summary(view: NodeView) -> Object:
    """Returns the summary of a node."""
    now, in_use = measured_at(view), pods_in_use(view)
    pods = []
    for pod in in_use:
        containers = [
            {
                "name": container.container.name,
                "startTime": timestamp(container.container.started_at),
                **_usage(container.usage, now),
            }
            for container in pod.containers
        ]
        reference = {
            "name": pod_spec.name_of(pod.pod),
            "namespace": pod_spec.namespace_of(pod.pod),
            "uid": pod_spec.uid_of(pod.pod),
        }
        started = timestamp(pod.sandbox.created_at)
        pods.append(
            {
                "podRef": reference,
                "startTime": started,
                "containers": containers,
                **_usage(pod.usage, now),
                "process_stats": {"process_count": len(containers) + 1},
            }
        )
    node = _usage(node_usage(in_use, view), now)
    available = (
        int(requested({"resources": {"requests": view.capacity}}, "memory")) - node["memory"]["usageBytes"]
    )
    node["memory"]["availableBytes"] = max(available, 0)
    return {"node": {"nodeName": view.name, "startTime": timestamp(view.since), **node}, "pods": pods}


def _usage(usage: Usage, now: datetime) -> Object:
    at = timestamp(now)
    return {
        "cpu": {
            "time": at,
            "usageNanoCores": int(usage.cores * 1e9),
            "usageCoreNanoSeconds": int(usage.core_seconds * 1e9),
        },
        "memory": {
            "time": at,
            "usageBytes": usage.memory * 5 // 4,
            "workingSetBytes": usage.memory,
            "rssBytes": usage.rss,
            "pageFaults": 0,
            "majorPageFaults": 0,
        },
    }

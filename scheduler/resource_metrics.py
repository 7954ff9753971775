"""`/metrics/resources`: requests and limits of each pod, as the scheduler counts them.

Source: k8s.io/kubernetes/pkg/scheduler/metrics/resources, 1.36.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.scheduler.framework.pod_info import pod_limits, pod_requests

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import GaugeMetricFamily

PATH = "/metrics/resources"
_LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
_UNITS = {"cpu": "cores", "memory": "bytes", "storage": "bytes", "ephemeral-storage": "bytes"}


class ResourceCollector:
    """Computes the series when they are read."""

    def __init__(self, pods: Callable[[], Iterable[Object]]) -> None:
        self._pods = pods

    def collect(self) -> Iterable["GaugeMetricFamily"]:
        from prometheus_client.core import GaugeMetricFamily

        requests = GaugeMetricFamily(
            "kube_pod_resource_request", "What a pod asks for, by resource.", labels=_LABELS
        )
        limits = GaugeMetricFamily(
            "kube_pod_resource_limit", "What a pod may use, by resource.", labels=_LABELS
        )
        for pod in self._pods():
            if _is_over(pod):
                continue
            _add(requests, pod, pod_requests(pod["spec"]))
            _add(limits, pod, pod_limits(pod["spec"]))
        return requests, limits


def resource_registry(pods: Callable[[], Iterable[Object]]) -> "CollectorRegistry":
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    registry.register(ResourceCollector(pods))
    return registry


def _is_over(pod: Object) -> bool:
    """Pods without a node are always shown."""
    return bool(pod["spec"].get("nodeName")) and is_terminal(pod)


def _unit(resource: str) -> str:
    """The unit of a resource; an extended one has none (pkg/scheduler/metrics/resources, 1.36)."""
    if resource.startswith("attachable-volumes-"):
        return "integer"
    return "bytes" if resource.startswith("hugepages-") else _UNITS.get(resource, "")


def _add(family: "GaugeMetricFamily", pod: Object, amounts: Mapping[str, int]) -> None:
    spec, metadata = pod["spec"], pod["metadata"]
    priority = spec.get("priority")
    for name, number in sorted(amounts.items()):
        if not number:
            continue
        labels = (
            metadata.get("namespace", ""),
            metadata["name"],
            spec.get("nodeName") or "",
            spec.get("schedulerName") or "",
            "" if priority is None else str(priority),
            name,
            _unit(name),
        )
        family.add_metric(labels, number / 1000 if name == "cpu" else number)

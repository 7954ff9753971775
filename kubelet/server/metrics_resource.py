"""`/metrics/resource`: the usage of node, pods and containers.

That the metrics became stable in 1.29, together with swap, is from memory.

Source: k8s.io/kubernetes/pkg/kubelet/metrics/collectors/resource_metrics.go, 1.36.
"""

from datetime import datetime

from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.server.metric_families import Family, rendered
from kubeskew.kubelet.server.usage import measured_at, node_usage, pods_in_use
from kubeskew.kubelet.server.view import NodeView

_ERROR = "1 if there was an error while getting container metrics, 0 otherwise"


class _Families:
    def __init__(self, *, stable: bool) -> None:
        self._stable = stable
        self.all: list[Family] = []

    def add(self, name: str, kind: str, text: str, *, alpha: bool = False) -> Family:
        level = "STABLE" if self._stable and not alpha else "ALPHA"
        self.all.append(Family(name, kind, f"[{level}] {text}"))
        return self.all[-1]


def resource_metrics(view: NodeView) -> str:
    """Returns the page of a node."""
    families = _Families(stable=view.features.stable_resource_metrics)
    now, pods = measured_at(view), pods_in_use(view)
    node = node_usage(pods, view)
    text = "Cumulative cpu time consumed by the {} in core-seconds"
    cpu = {
        of: families.add(f"{of}_cpu_usage_seconds_total", "counter", text.format(of))
        for of in ("node", "container", "pod")
    }
    text = "Current working set of the {} in bytes"
    memory = {
        of: families.add(f"{of}_memory_working_set_bytes", "gauge", text.format(of))
        for of in ("node", "container", "pod")
    }
    started = families.add(
        "container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds"
    )
    cpu["node"].add(node.core_seconds, at=now)
    memory["node"].add(node.memory, at=now)
    for pod in pods:
        labels = {"namespace": pod_spec.namespace_of(pod.pod), "pod": pod_spec.name_of(pod.pod)}
        for container in pod.containers:
            named = {"container": container.container.name, **labels}
            cpu["container"].add(container.usage.core_seconds, named, now)
            memory["container"].add(container.usage.memory, named, now)
            started.add(container.container.started_at.timestamp(), named)
        cpu["pod"].add(pod.usage.core_seconds, labels, now)
        memory["pod"].add(pod.usage.memory, labels, now)
    if view.features.swap_metrics:
        _add_swap(families, view, now)
    _add_errors(families, view)
    return rendered(families.all)


def _add_swap(families: _Families, view: NodeView, now: datetime) -> None:
    """Adds the metrics of swap: fake nodes have none."""
    text = "Reported only on non-windows systems"
    node = families.add(
        "node_swap_usage_bytes", "gauge", f"Current swap usage of the node in bytes. {text}", alpha=True
    )
    container = families.add(
        "container_swap_usage_bytes",
        "gauge",
        f"Current amount of the container swap usage in bytes. {text}",
        alpha=True,
    )
    pod = families.add(
        "pod_swap_usage_bytes",
        "gauge",
        f"Current amount of the pod swap usage in bytes. {text}",
        alpha=True,
    )
    node.add(0, at=now)
    for each in pods_in_use(view):
        labels = {"namespace": pod_spec.namespace_of(each.pod), "pod": pod_spec.name_of(each.pod)}
        for one in each.containers:
            container.add(0, {"container": one.container.name, **labels}, now)
        pod.add(0, labels, now)


def _add_errors(families: _Families, view: NodeView) -> None:
    if view.features.stable_resource_metrics:
        families.add("resource_scrape_error", "gauge", _ERROR).add(0)
        families.all.append(Family("scrape_error", "gauge", f"[ALPHA] (Deprecated since 1.29.0) {_ERROR}"))
    else:
        families.add("scrape_error", "gauge", _ERROR)
    families.all[-1].add(0)

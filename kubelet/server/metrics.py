"""The pages `/metrics/resource`, `/metrics/cadvisor` and `/metrics/probes`, made at each scrape.

They are in Prometheus' text format, with the time of each value. Labels of cAdvisor's metrics are the
kubelet's, and of the many only those that monitoring uses are there.

Sources: k8s.io/kubernetes/pkg/kubelet/metrics/collectors/resource_metrics.go, 1.26 to 1.36,
pkg/kubelet/server/server.go (containerPrometheusLabelsFunc), pkg/kubelet/prober/prober_manager.go,
github.com/google/cadvisor/metrics/prometheus.go, 1.36.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.sandbox import full_image_name
from kubeskew.kubelet.containers.usage import requested
from kubeskew.kubelet.server.stats import (
    ContainerUsage,
    NodeView,
    PodUsage,
    Usage,
    measured_at,
    node_usage,
    pods_in_use,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ERROR = "1 if there was an error while getting container metrics, 0 otherwise"
_PAUSE = "registry.k8s.io/pause:3.10"
_GAUGE, _COUNTER = "gauge", "counter"
_FAMILIES = {
    "container_cpu_usage_seconds_total": (_COUNTER, "Cumulative cpu time consumed in seconds."),
    "container_cpu_user_seconds_total": (_COUNTER, "Cumulative user cpu time consumed in seconds."),
    "container_cpu_system_seconds_total": (_COUNTER, "Cumulative system cpu time consumed in seconds."),
    "container_memory_usage_bytes": (
        _GAUGE,
        "Current memory usage in bytes, including all memory regardless of when it was accessed",
    ),
    "container_memory_working_set_bytes": (_GAUGE, "Current working set in bytes."),
    "container_memory_rss": (_GAUGE, "Size of RSS in bytes."),
    "container_memory_cache": (_GAUGE, "Number of bytes of page cache memory."),
    "container_memory_swap": (_GAUGE, "Container swap usage in bytes."),
    "container_memory_failcnt": (_COUNTER, "Number of memory usage hits limits"),
    "container_fs_usage_bytes": (
        _GAUGE,
        "Number of bytes that are consumed by the container on this filesystem.",
    ),
    "container_last_seen": (_GAUGE, "Last time a container was seen by the exporter"),
    "container_start_time_seconds": (
        _GAUGE,
        "Start time of the container since unix epoch in seconds.",
    ),
    "container_processes": (_GAUGE, "Number of processes running inside the container."),
    "container_oom_events_total": (_COUNTER, "Count of out of memory events observed for the container"),
    "container_spec_cpu_period": (_GAUGE, "CPU period of the container."),
    "container_spec_cpu_quota": (_GAUGE, "CPU quota of the container."),
    "container_spec_cpu_shares": (_GAUGE, "CPU share of the container."),
    "container_spec_memory_limit_bytes": (_GAUGE, "Memory limit for the container."),
    "container_spec_memory_reservation_limit_bytes": (_GAUGE, "Memory reservation limit for the container."),
    "container_spec_memory_swap_limit_bytes": (_GAUGE, "Memory swap limit for the container."),
    "container_network_receive_bytes_total": (_COUNTER, "Cumulative count of bytes received"),
    "container_network_transmit_bytes_total": (_COUNTER, "Cumulative count of bytes transmitted"),
    "container_network_receive_packets_total": (_COUNTER, "Cumulative count of packets received"),
    "container_network_transmit_packets_total": (_COUNTER, "Cumulative count of packets transmitted"),
    "container_scrape_error": (
        _GAUGE,
        "1 if there was an error while getting container metrics, 0 otherwise",
    ),
    "machine_cpu_cores": (_GAUGE, "Number of logical CPU cores."),
    "machine_memory_bytes": (_GAUGE, "Amount of memory installed on the machine."),
}
_CPU_PERIOD = 100_000
_Labels = dict[str, str]


@dataclass(slots=True)
class Family:
    """One metric: its samples have labels, a value and perhaps a time."""

    name: str
    kind: str  # counter or gauge
    help: str
    samples: list[str] = field(default_factory=list)

    def add(self, value: float, labels: Mapping[str, str] | None = None, at: datetime | None = None) -> None:
        shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in (labels or {}).items())
        moment = f" {int(at.timestamp() * 1000)}" if at is not None else ""
        self.samples.append(f"{self.name}{'{' + shown + '}' if shown else ''} {_number(value)}{moment}")


def rendered(families: Iterable[Family]) -> str:
    """Families are sorted by name; those without samples are left out."""
    lines = []
    for family in sorted(families, key=lambda each: each.name):
        if family.samples:
            lines += [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
            lines += family.samples
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    """Formats a number as Go's 'g': the shortest text, from 1e+06 on with an exponent of two digits."""
    if abs(value) < 1e6 and (value == 0 or abs(value) >= 1e-4):
        return repr(float(value)).removesuffix(".0")
    digits = next(count for count in range(17) if float(f"{value:.{count}e}") == value)
    return f"{value:.{digits}e}"


class _Families:
    def __init__(self, *, stable: bool) -> None:
        self._stable = stable
        self.all: list[Family] = []

    def add(self, name: str, kind: str, text: str, *, alpha: bool = False) -> Family:
        level = "STABLE" if self._stable and not alpha else "ALPHA"
        self.all.append(Family(name, kind, f"[{level}] {text}"))
        return self.all[-1]


def resource_metrics(view: NodeView) -> str:
    families = _Families(stable=view.features.stable_resource_metrics)
    now = measured_at(view)
    pods = pods_in_use(view, now)
    node = node_usage(pods, view, now)
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


class _Page:
    def __init__(self, now: datetime) -> None:
        self.now = now
        self.families = {name: Family(name, kind, text) for name, (kind, text) in _FAMILIES.items()}

    def add(self, name: str, value: float, labels: _Labels) -> None:
        self.families[name].add(value, labels, self.now)

    def cgroup(self, labels: _Labels, usage: Usage, since: datetime, processes: int) -> None:
        """Adds the metrics of every cgroup: the node's, a pod's, a container's."""
        seconds = usage.core_seconds
        self.add("container_cpu_usage_seconds_total", seconds, {**labels, "cpu": "total"})
        self.add("container_cpu_user_seconds_total", seconds * 0.7, labels)
        self.add("container_cpu_system_seconds_total", seconds * 0.3, labels)
        self.add("container_memory_usage_bytes", usage.memory * 5 // 4, labels)
        self.add("container_memory_working_set_bytes", usage.memory, labels)
        self.add("container_memory_rss", usage.rss, labels)
        self.add("container_memory_cache", usage.memory * 5 // 4 - usage.rss, labels)
        self.add("container_processes", processes, labels)
        self.add("container_last_seen", int(self.now.timestamp()), labels)
        self.add("container_start_time_seconds", int(since.timestamp()), labels)
        for name in ("container_memory_swap", "container_memory_failcnt", "container_oom_events_total"):
            self.add(name, 0, labels)

    def limits(self, labels: _Labels, spec: Object) -> None:
        cpu, memory = requested(spec, "cpu", "limits"), requested(spec, "memory", "limits")
        self.add("container_spec_cpu_period", _CPU_PERIOD, labels)
        if cpu:
            self.add("container_spec_cpu_quota", int(cpu * _CPU_PERIOD), labels)
        shares = max(int(requested(spec, "cpu") * 1024), 2)
        self.add("container_spec_cpu_shares", shares, labels)
        self.add("container_spec_memory_limit_bytes", int(memory), labels)
        self.add("container_spec_memory_reservation_limit_bytes", 0, labels)
        self.add("container_spec_memory_swap_limit_bytes", int(memory), labels)


def cadvisor_metrics(view: NodeView) -> str:
    page = _Page(view.clock.now())
    pods = pods_in_use(view)
    processes = sum(pod.usage.processes + 1 for pod in pods)
    page.cgroup(_labels("/"), node_usage(pods, view), view.since, processes + 90)
    for pod in pods:
        _add_pod(page, pod)
    for name, value in _machine(view.capacity):
        page.add(name, value, {"boot_id": "", "machine_id": "", "system_uuid": ""})
    page.families["container_scrape_error"].add(0)
    return rendered(page.families.values())


def _machine(capacity: Mapping[str, str]) -> Iterator[tuple[str, float]]:
    for name, resource in (("machine_cpu_cores", "cpu"), ("machine_memory_bytes", "memory")):
        yield name, requested({"resources": {"requests": capacity}}, resource)


def _add_pod(page: _Page, each: PodUsage) -> None:
    pod, sandbox = each.pod, each.sandbox
    about = {"namespace": pod_spec.namespace_of(pod), "pod": pod_spec.name_of(pod)}
    quality = pod_spec.qos_class(pod).lower()
    middle = "" if quality == "guaranteed" else f"/{quality}"
    group = f"/kubepods{middle}/pod{pod_spec.uid_of(pod)}"
    page.cgroup({**_labels(group), **about}, each.usage, sandbox.created_at, each.usage.processes + 1)
    pause = {**_labels(f"{group}/{sandbox.id}", image=_PAUSE, name=sandbox.id), **about}
    page.cgroup(pause, Usage(0.0, 0.02, 262_144, 209_715), sandbox.created_at, 1)
    for container in each.containers:
        _add_container(page, container, group, about)
    sent = int(max((page.now - sandbox.created_at).total_seconds(), 0) * 64)
    network = {**pause, "interface": "eth0"}
    for way in ("receive", "transmit"):
        page.add(f"container_network_{way}_bytes_total", sent, network)
        page.add(f"container_network_{way}_packets_total", sent // 128, network)


def _add_container(page: _Page, one: ContainerUsage, group: str, about: _Labels) -> None:
    container = one.container
    labels = _labels(
        f"{group}/{container.id}", container.name, full_image_name(container.image), container.id
    )
    labels |= about
    page.cgroup(labels, one.usage, container.started_at, one.usage.processes)
    page.limits(labels, one.spec)
    page.add("container_fs_usage_bytes", one.usage.written, {**labels, "device": "/dev/vda1"})


def _labels(group: str, container: str = "", image: str = "", name: str = "") -> _Labels:
    """The kubelet's own labels keep their order; they are empty if a cgroup is not a container's."""
    return {"container": container, "id": group, "image": image, "name": name, "namespace": "", "pod": ""}


def probe_metrics(view: NodeView) -> str:
    total = Family(
        "prober_probe_total",
        "counter",
        "[BETA] Cumulative number of a liveness, readiness or startup probe for a container by result.",
    )
    for pod in pods_in_use(view):
        labels = {
            "namespace": pod_spec.namespace_of(pod.pod),
            "pod": pod_spec.name_of(pod.pod),
            "pod_uid": pod_spec.uid_of(pod.pod),
        }
        for (name, kind, result), count in sorted(view.probes.of(labels["pod_uid"]).items()):
            named = {"container": name, **labels}
            total.add(count, {**named, "probe_type": kind.capitalize(), "result": result})
    return rendered([total])

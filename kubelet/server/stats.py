"""The view that the server has of its node, the usage of its containers, and the page `/stats/summary`.

All pages about usage have it from here. The summary has node, pods and containers, as a Summary of
stats/v1alpha1.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubeskew.apimachinery.clock import Clock, timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.runtime_service import RuntimeService
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.containers.usage import requested
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.probe_counts import ProbeCounts

_SYSTEM_CORES, _SYSTEM_BYTES = 0.12, 420 << 20  # usage of the node besides its pods


class ServerError(Exception):
    """An answer that is not a success: a status and plain text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class EndedUsage:
    """Keeps what containers had used when they were last seen, so that a node's counter never falls."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._total = 0.0

    def core_seconds(self, running: Mapping[str, float]) -> float:
        """Sums up the core seconds of all that ran before; `running` has those of each container now."""
        self._total += sum(used for name, used in self._seen.items() if name not in running)
        self._seen = dict(running)
        return self._total


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node. `pods` returns those the kubelet knows, each with its newest status."""

    name: str
    clock: Clock
    runtime: RuntimeService
    pods: Callable[[], list[Object]]
    features: KubeletFeatures
    since: datetime  # when its kubelet started
    capacity: Mapping[str, str]
    probes: ProbeCounts = field(default_factory=ProbeCounts)
    ended: EndedUsage = field(default_factory=EndedUsage)
    settings: Mapping[str, Any] = field(default_factory=dict)  # of its KubeletConfiguration

    def pod(self, namespace: str, name: str) -> Object | None:
        found = (namespace, name)
        return next(
            (pod for pod in self.pods() if (pod_spec.namespace_of(pod), pod_spec.name_of(pod)) == found), None
        )

    def running(self, namespace: str, name: str, container: str) -> tuple[Sandbox, Container]:
        """Raises ServerError as exec and attach do."""
        pod = self.pod(namespace, name)
        if pod is None:
            raise ServerError(404, "pod does not exist")
        sandbox = self.runtime.sandbox(pod_spec.uid_of(pod))
        latest = sandbox.latest(container) if sandbox is not None else None
        if sandbox is None or latest is None or not latest.running(self.clock.now()):
            raise ServerError(500, f'container not found ("{container}")')
        return sandbox, latest


@dataclass(frozen=True, slots=True)
class Usage:
    """Cores now, core seconds since the start, bytes of memory (the working set, and what is resident)."""

    cores: float
    core_seconds: float
    memory: int
    rss: int
    processes: int = 1
    written: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.cores + other.cores,
            self.core_seconds + other.core_seconds,
            self.memory + other.memory,
            self.rss + other.rss,
            self.processes + other.processes,
            self.written + other.written,
        )


NOTHING = Usage(0.0, 0.0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """A running container with its spec."""

    container: Container
    spec: Object
    usage: Usage


@dataclass(frozen=True, slots=True)
class PodUsage:
    """A pod with running containers."""

    pod: Object
    sandbox: Sandbox
    containers: list[ContainerUsage]

    @property
    def usage(self) -> Usage:
        return sum((container.usage for container in self.containers), NOTHING)


def measured_at(view: NodeView) -> datetime:
    """Times are cut to the millisecond, as pages show them: rates between two pages are exact."""
    now = view.clock.now()
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def pods_in_use(view: NodeView, now: datetime | None = None) -> list[PodUsage]:
    """Pods are left out that have no containers running. `now` is the time that a page shows, if any."""
    now = measured_at(view) if now is None else now
    found = []
    for pod in view.pods():
        sandbox = view.runtime.sandbox(pod_spec.uid_of(pod))
        running = sandbox.running(now) if sandbox is not None else []
        if sandbox is None or not running:
            continue
        specs = {spec["name"]: spec for spec in pod_spec.all_containers(pod)}
        containers = [
            ContainerUsage(
                container,
                specs.get(container.name, {}),
                _usage(view.runtime, sandbox, container, now),
            )
            for container in running
        ]
        found.append(PodUsage(pod, sandbox, containers))
    return found


def node_usage(pods: list[PodUsage], view: NodeView, now: datetime | None = None) -> Usage:
    """The system runs since the kubelet began; core seconds of containers that have ended stay."""
    running = {each.container.id: each.usage for pod in pods for each in pod.containers}
    seconds = max(((now or measured_at(view)) - view.since).total_seconds(), 0.0)
    past = view.ended.core_seconds({name: usage.core_seconds for name, usage in running.items()})
    system = Usage(_SYSTEM_CORES, _SYSTEM_CORES * seconds + past, _SYSTEM_BYTES, _SYSTEM_BYTES * 4 // 5)
    return sum(running.values(), system)


def _usage(runtime: RuntimeService, sandbox: Sandbox, container: Container, now: datetime) -> Usage:
    stats = runtime.stats(sandbox, container, now)
    return Usage(
        *(stats.cores, stats.core_seconds, stats.working_set, stats.resident, stats.processes, stats.written)
    )


def summary(view: NodeView) -> Object:
    now = measured_at(view)
    in_use = pods_in_use(view, now)
    pods = []
    for pod in in_use:
        containers = [
            {
                "name": container.container.name,
                "startTime": timestamp(container.container.started_at),
                **_usage_stats(container.usage, now),
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
                **_usage_stats(pod.usage, now),
                "process_stats": {"process_count": pod.usage.processes + 1},
            }
        )
    node = _usage_stats(node_usage(in_use, view, now), now)
    available = (
        int(requested({"resources": {"requests": view.capacity}}, "memory")) - node["memory"]["usageBytes"]
    )
    node["memory"]["availableBytes"] = max(available, 0)
    return {"node": {"nodeName": view.name, "startTime": timestamp(view.since), **node}, "pods": pods}


def _usage_stats(usage: Usage, now: datetime) -> Object:
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

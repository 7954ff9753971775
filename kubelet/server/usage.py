"""Adds up what the containers of a node use: all pages that tell of usage have it from here."""

from dataclasses import dataclass
from datetime import datetime

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.containers.usage import demand_of
from kubeskew.kubelet.server.view import NodeView

_SYSTEM_CORES, _SYSTEM_BYTES = 0.12, 420 << 20  # usage of the node beside its pods


@dataclass(frozen=True, slots=True)
class Usage:
    """Cores now, core seconds since the start, bytes of memory."""

    cores: float
    core_seconds: float
    memory: int

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.cores + other.cores, self.core_seconds + other.core_seconds, self.memory + other.memory
        )

    @property
    def rss(self) -> int:
        return self.memory * 4 // 5


NOTHING = Usage(0.0, 0.0, 0)


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
    """Returns the time of what is measured now, to the millisecond, as pages show it: rates between two pages
    are exact."""
    now = view.clock.now()
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def pods_in_use(view: NodeView) -> list[PodUsage]:
    """Returns the pods of the node that have containers running, and what these use."""
    now = measured_at(view)
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
                _usage(pod, container, specs.get(container.name), now),
            )
            for container in running
        ]
        found.append(PodUsage(pod, sandbox, containers))
    return found


def node_usage(pods: list[PodUsage], view: NodeView) -> Usage:
    """Returns the usage of all pods and of the system, which runs since the kubelet began; core seconds of
    containers that have ended stay."""
    running = {each.container.id: each.usage for pod in pods for each in pod.containers}
    seconds = max((measured_at(view) - view.since).total_seconds(), 0.0)
    past = view.ended.core_seconds({name: usage.core_seconds for name, usage in running.items()})
    system = Usage(_SYSTEM_CORES, _SYSTEM_CORES * seconds + past, _SYSTEM_BYTES)
    return sum(running.values(), system)


def _usage(pod: Object, container: Container, spec: Object | None, now: datetime) -> Usage:
    memory = demand_of(pod, spec).memory if spec is not None else 0
    return Usage(container.cores, container.used(now), memory)

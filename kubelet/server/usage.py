"""Makes up the usage of each fake container: always the same, and growing with time.

A container uses a tenth of the processor time that it requests, a little more or less, and half of the
memory.
"""

import zlib
from dataclasses import dataclass
from datetime import datetime

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.server.view import NodeView

_IDLE_CORES, _IDLE_BYTES = 0.002, 12 << 20  # usage of a container without requests
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


def pods_in_use(view: NodeView) -> list[PodUsage]:
    """Returns the pods of the node that have containers running."""
    now = view.clock.now()
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
                _usage(container, specs.get(container.name, {}), now),
            )
            for container in running
        ]
        found.append(PodUsage(pod, sandbox, containers))
    return found


def node_usage(pods: list[PodUsage], since: datetime, now: datetime) -> Usage:
    """Returns the usage of all pods and of the system, which runs `since`."""
    seconds = max((now - since).total_seconds(), 0.0)
    return sum((pod.usage for pod in pods), Usage(_SYSTEM_CORES, _SYSTEM_CORES * seconds, _SYSTEM_BYTES))


def requested(spec: Object, resource: str, kind: str = "requests") -> float:
    """Returns a container's request or limit of a resource; 0 if it has none."""
    amount = ((spec.get("resources") or {}).get(kind) or {}).get(resource)
    return Quantity.parse(str(amount)).milli_value() / 1000 if amount is not None else 0.0


def _usage(container: Container, spec: Object, now: datetime) -> Usage:
    share = 0.8 + zlib.crc32(container.id.encode()) % 400 / 1000  # 0.8 … 1.2
    cores = max(requested(spec, "cpu") / 10, _IDLE_CORES) * share
    memory = int(max(requested(spec, "memory") / 2, _IDLE_BYTES) * share) // 4096 * 4096
    seconds = max((now - container.started_at).total_seconds(), 0.0)
    return Usage(cores, cores * seconds, memory)

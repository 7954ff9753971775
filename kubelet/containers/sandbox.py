"""The records that a container runtime keeps of a pod: its sandbox and its containers."""

import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubeskew.apimachinery.objects import Object

# Before a program uses anything: pages show its start as a float, and a rate since then may not be too high.
_STARTING = timedelta(milliseconds=1)

RUNTIME_NAME = "containerd"  # that nodes and containers show whose runtime is kubeskew's own
RUNTIME_VERSION = f"{RUNTIME_NAME}://2.1.0+kubeskew"


@dataclass(slots=True)
class Container:
    """One attempt at running a container of a pod."""

    id: str
    name: str
    attempt: int
    image: str
    started_at: datetime
    ends_at: datetime | None = None  # when it ended, or will; None: runs until stopped
    exit_code: int = 0
    stops_after: float | None = 0.0  # seconds an acted one lives after SIGTERM; None: SIGTERM is ignored
    image_reference: str = ""  # NAME@sha256:…, as the API shows it
    env: dict[str, str] = field(default_factory=dict)
    cdi_devices: list[str] = field(default_factory=list)
    argv: list[str] = field(default_factory=list)
    directory: str = "/"
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    device_nodes: list[Object] = field(default_factory=list)  # as devices.DeviceNode
    host_mounts: list[Object] = field(default_factory=list)  # as devices.HostMount
    annotations: dict[str, str] = field(default_factory=dict)  # not shown by the API
    reason: str = ""  # why it ended, where that is neither Completed nor Error
    message: str = ""
    memory: int = 0  # bytes that an acted one uses
    cores: float = 0.0  # that an acted one uses since `metered_at`, or since its start
    core_seconds: float = 0.0  # that it had used by then
    metered_at: datetime | None = None

    def running(self, now: datetime) -> bool:
        return self.ends_at is None or self.ends_at > now

    @property
    def ended_at(self) -> datetime:
        """Returns when a container that does not run ended. Raises ValueError if it has no end."""
        if self.ends_at is None:
            raise ValueError(f"container {self.id} runs until it is stopped")
        return self.ends_at

    def used(self, now: datetime) -> float:
        """Returns the core seconds that it has used up to a moment in which it runs."""
        seconds = (now - (self.metered_at or self.started_at + _STARTING)).total_seconds()
        return self.core_seconds + self.cores * max(seconds, 0.0)

    @property
    def container_id(self) -> str:
        """Returns the ID as the API shows it."""
        return f"{RUNTIME_NAME}://{self.id}"

    @property
    def image_id(self) -> str:
        """The image's reference, or one with a made-up digest where nothing was pulled."""
        if self.image_reference:
            return self.image_reference
        return made_up_reference(self.image)


def made_up_reference(image: str) -> str:
    """NAME@sha256:… for an image in full that was never pulled."""
    repository = image.split("@")[0]
    head, _, tail = repository.rpartition("/")
    name = tail.split(":")[0]
    digest = hashlib.sha256(image.encode()).hexdigest()
    return f"{head}/{name}@sha256:{digest}" if head else f"{name}@sha256:{digest}"


@dataclass(slots=True)
class Sandbox:
    """The sandbox that a pod's containers share."""

    pod_uid: str
    namespace: str
    name: str
    id: str
    ip: str
    created_at: datetime
    ready: bool = True
    containers: list[Container] = field(default_factory=list)
    hostname: str = ""

    def latest(self, name: str) -> Container | None:
        """Returns the newest attempt of a container."""
        return max((c for c in self.containers if c.name == name), key=lambda c: c.attempt, default=None)

    def previous(self, name: str) -> Container | None:
        """Returns the attempt before the newest."""
        attempts = sorted((c for c in self.containers if c.name == name), key=lambda c: c.attempt)
        return attempts[-2] if len(attempts) > 1 else None

    def running(self, now: datetime) -> list[Container]:
        return [container for container in self.containers if container.running(now)]


def full_image_name(image: str) -> str:
    """Returns the image's name as containerd reports it: with registry and tag."""
    head, _, tail = image.rpartition("/")
    if ":" not in tail and "@" not in tail:
        image = f"{image}:latest"
    first = head.split("/")[0]
    if head and ("." in first or ":" in first or first == "localhost"):
        return image
    return f"docker.io/{image}" if head else f"docker.io/library/{image}"


def sandbox_from(data: Object) -> Sandbox:
    """Returns the sandbox of what was read from its JSON; takes `data` apart."""
    containers = [_container_from(container) for container in data.pop("containers")]
    created_at = datetime.fromisoformat(data.pop("created_at"))
    return Sandbox(**data, created_at=created_at, containers=containers)


def _container_from(data: Object) -> Container:
    started_at = datetime.fromisoformat(data.pop("started_at"))
    ends_at, metered_at = data.pop("ends_at"), data.pop("metered_at", None)
    return Container(
        **data,
        started_at=started_at,
        ends_at=None if ends_at is None else datetime.fromisoformat(ends_at),
        metered_at=None if metered_at is None else datetime.fromisoformat(metered_at),
    )

"""The container runtime of one node as its kubelet sees it: CRI's verbs, within the kubelet's process.

A runtime acts its containers (`simulated`), or runs them as processes of this machine (`host`). What a pod's
specification means (volumes, secrets, claims, security contexts) is the kubelet's business: it hands over
finished configurations. The records of sandboxes and containers (`sandbox.py`) are what CRI's
ListPodSandbox and ContainerStatus would answer. A runtime keeps them up to date, and calls `on_change` with
the UID of a pod of which a container changed by itself. One that knows beforehand when a container ends may
have that moment in the record instead, and need not call.

Source: k8s.io/cri-api/pkg/apis/runtime/v1/api.proto, 1.36.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Protocol

from kubeskew.apimachinery.streaming import Pipe
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.device_managers import CDIDevice


class ContainerRuntimeError(Exception):
    """The runtime refused or failed; the text is what its gRPC status says, or would, with that code."""

    def __init__(self, text: str, code: str = "Unknown") -> None:
        super().__init__(text)
        self.code = code


class ContainerStartError(ContainerRuntimeError):
    """A container was created, and cannot be started."""


class ImageError(ContainerRuntimeError):
    """An image cannot be had: `reason` is that of the container's waiting state (ErrImagePull, …)."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PortForwardError(OSError):
    """A port of a pod cannot be reached; the text is the runtime's, for who asked."""


class CommandTimeoutError(ContainerRuntimeError):
    """A command did not end in its time."""


RUNTIME_DEFAULT, LOCALHOST = "RuntimeDefault", "Localhost/"  # profiles of seccomp


# -- sandboxes


@dataclass(frozen=True, slots=True)
class ContainerSecurity:
    """The effect of the pod's and the container's security contexts."""

    run_as_user: int | None = None  # None: the image's
    run_as_group: int | None = None
    supplemental_groups: Sequence[int] = ()
    strict_groups: bool = False  # supplementalGroupsPolicy: Strict
    privileged: bool = False
    added_capabilities: Sequence[str] = ()
    dropped_capabilities: Sequence[str] = ()
    read_only_root: bool = False
    no_new_privileges: bool = False
    unmasked_proc: bool = False  # procMount: Unmasked
    seccomp: str = ""  # RuntimeDefault, Localhost/FILE, or empty for none; only for runtimes that apply them
    selinux: Mapping[str, str] = field(default_factory=dict)  # user, role, type and level; likewise


class PortMapping(NamedTuple):
    """A port of the machine that leads to one of the pod."""

    container_port: int
    host_port: int
    protocol: str = "TCP"
    host_ip: str = ""


class DNSConfig(NamedTuple):
    """The lines of /etc/resolv.conf."""

    servers: Sequence[str] = ()
    searches: Sequence[str] = ()
    options: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class PodSandboxConfig:
    """The kubelet's request for the sandbox of a pod that begins."""

    uid: str
    namespace: str
    name: str
    hostname: str
    log_directory: Path  # /var/log/pods/NAMESPACE_NAME_UID of the node; made by the runtime
    attempt: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    dns: DNSConfig | None = None  # None: the node's
    port_mappings: Sequence[PortMapping] = ()
    sysctls: Mapping[str, str] = field(default_factory=dict)
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    shares_pid: bool = False  # one PID namespace for the pod's containers (shareProcessNamespace)
    host_users: bool = True
    security: ContainerSecurity = ContainerSecurity()  # of the pod


# -- containers


class Mount(NamedTuple):
    """A file or directory of the machine at a path of the container."""

    container_path: str
    host_path: Path
    read_only: bool = False
    propagation: str = "None"  # None, HostToContainer or Bidirectional


class Device(NamedTuple):
    """A device file; `permissions` of r, w and m."""

    container_path: str
    host_path: str
    permissions: str = "rwm"


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """Limits as cgroups take them; 0 or empty: none."""

    cpu_shares: int = 0
    cpu_quota: int = 0
    cpu_period: int = 0
    memory_bytes: int = 0
    cpuset: str = ""
    oom_score_adjustment: int = 0


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """The kubelet's request for a container that begins. Command, args and env have no references left.

    What its CDI devices bring is in env, devices and mounts already. Among the annotations are those that say
    how a container is acted (`acting.py`).
    """

    name: str
    image: str  # as the pod names it
    command: Sequence[str] = ()
    args: Sequence[str] = ()
    working_directory: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    devices: Sequence[Device] = ()
    cdi_devices: Sequence[CDIDevice] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    stop_signal: str = ""  # empty: the image's, or SIGTERM
    target: str = ""  # the container whose processes an ephemeral one shares
    security: ContainerSecurity = ContainerSecurity()
    resources: ContainerResources = ContainerResources()
    id: str = ""  # that it is to have; empty: the runtime chooses


class ContainerStats(NamedTuple):
    """The use of a container: core seconds since its start, and bytes."""

    core_seconds: float
    working_set: int
    resident: int
    processes: int = 1
    written: int = 0  # bytes of its writable layer
    cores: float = 0.0  # at the moment


class LogLine(NamedTuple):
    """A piece of output, up to and with the end of the line (the last one may have none)."""

    time: datetime
    stream: str  # stdout or stderr
    data: bytes


# -- commands


class CommandResult(NamedTuple):
    """The end of a command in a container."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class Connection(Pipe, Protocol):
    """A connection to a port of a pod."""

    async def close(self) -> None: ...


class CommandStreams(Protocol):
    """The streams of a command or of an attached container, from the runtime's side."""

    async def read(self) -> bytes:
        """The next bytes of the standard input; empty at its end."""
        ...

    async def write_stdout(self, data: bytes) -> None: ...

    async def write_stderr(self, data: bytes) -> None: ...

    async def resized(self) -> tuple[int, int]:
        """(columns, rows) of the terminal, once they change; waits for ever if they do not."""
        ...


# -- images


@dataclass(frozen=True, slots=True)
class Image:
    """The answer of ImageStatus, with the user that the image's configuration names."""

    id: str  # sha256:…
    reference: str  # NAME@sha256:…, the imageID that the API shows
    size: int
    names: Sequence[str] = ()
    user: str = ""
    seconds: float | None = None  # a pull's, where it is only acted; None: as long as the call takes


# -- the interface


class ImageService(Protocol):
    """Knows and gets the node's images."""

    async def images(self) -> Sequence[Image]:
        """All that the node has. Raises ImageError, as the others do, if a runtime cannot be asked."""
        ...

    async def image(self, name: str) -> Image | None:
        """None if the node does not have it."""
        ...

    async def pull_image(self, name: str) -> Image: ...

    async def remove_image(self, name: str) -> None:
        """An image that is gone has been removed."""
        ...


class RuntimeHandler(NamedTuple):
    """A handler that a RuntimeClass may name; the name of the default one is empty."""

    name: str
    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False


class RuntimeStatus(NamedTuple):
    """The runtime's own account of itself, as a node's status shows it."""

    handlers: tuple[RuntimeHandler, ...]
    supplemental_groups_policy: bool | None  # None: it says nothing about its features


# Of the runtimes that are kubeskew's own.
OWN_STATUS = RuntimeStatus((RuntimeHandler(""),), supplemental_groups_policy=True)


class RuntimeService(Protocol):
    """Runs the pods of one node. Records change only by these calls and by what containers do themselves.

    Changes are kept before a call returns: a runtime that is made again on the same directory has them.
    """

    on_change: Callable[[str], None]  # called with a pod's UID when one of its containers changed by itself
    # False: containers are acted. The kubelet spares what only a program could see (files of volumes,
    # variables of services, the image's user), and network probes and hooks succeed.
    runs_programs: bool
    # True: a container runtime of the machine's, which resolves names of CDI devices and applies profiles of
    # seccomp and SELinux options; in the others the kubelet resolves the names, and there are no profiles.
    is_remote: bool

    @property
    def version(self) -> str:
        """NAME://VERSION, as nodes show it; known once it is loaded."""
        ...

    @property
    def status(self) -> RuntimeStatus:
        """Its handlers and features, as it said last; known once it is loaded."""
        ...

    def problem(self) -> str:
        """The reason why the node is not ready because of the runtime; empty while it is well."""
        ...

    async def load(self) -> None:
        """Takes up what runs already. Raises ContainerRuntimeError if nothing can be run here."""
        ...

    async def run(self) -> None:
        """Follows the containers until cancelled; they go on."""
        ...

    # reading

    def sandboxes(self) -> Sequence[Sandbox]: ...

    def sandbox(self, pod_uid: str) -> Sandbox | None: ...

    # sandboxes

    async def run_pod_sandbox(self, config: PodSandboxConfig) -> Sandbox:
        """Raises ContainerRuntimeError."""
        ...

    async def stop_pod_sandbox(self, sandbox: Sandbox) -> None:
        """Ends what runs in it and gives its address back; what it was stays readable."""
        ...

    async def remove_pod_sandbox(self, pod_uid: str) -> None:
        """Nothing happens if there is none. Raises ContainerRuntimeError."""
        ...

    # containers

    async def start_container(self, sandbox: Sandbox, config: ContainerConfig) -> Container:
        """Creates and starts the next attempt of a container; drops dead attempts but the last.

        A program that cannot be started gives an ended attempt with reason StartError and exit code 128.
        Raises ContainerRuntimeError if the container cannot be created.
        """
        ...

    def stop_container(self, sandbox: Sandbox, container: Container, grace: float) -> None:
        """Begins to stop it: its stop signal now, SIGKILL `grace` seconds later if it still runs.

        Called again it can only bring the SIGKILL forward.
        """
        ...

    async def update_resources(
        self,
        sandbox: Sandbox,
        container: Container,
        resources: ContainerResources,
        annotations: Mapping[str, str],
    ) -> None:
        """Replaces the limits and annotations of a running container. Raises ContainerRuntimeError."""
        ...

    async def measure(self) -> None:
        """Brings `stats` up to date, where a measurement takes a call."""
        ...

    def stats(self, sandbox: Sandbox, container: Container, at: datetime | None = None) -> ContainerStats:
        """A runtime that knows what is used at any time tells it of `at`: the time that a page shows."""
        ...

    # within containers

    def logs(self, sandbox: Sandbox, container: Container) -> Sequence[LogLine]:
        """The output so far, as far as it is kept."""
        ...

    def follow_logs(self, sandbox: Sandbox, container: Container) -> AsyncIterator[LogLine]:
        """The output from this call on (not from the first iteration), until the container ends."""
        ...

    async def reopen_log(self, sandbox: Sandbox, container: Container) -> None:
        """Goes on in a new file at a log's path: the kubelet has renamed the one so far.

        Raises ContainerRuntimeError.
        """
        ...

    async def exec_sync(
        self, sandbox: Sandbox, container: Container, command: Sequence[str], seconds: float
    ) -> CommandResult:
        """Runs a command to its end. Raises CommandTimeoutError, and ContainerRuntimeError if it cannot be
        started."""
        ...

    async def exec(
        self,
        sandbox: Sandbox,
        container: Container,
        command: Sequence[str],
        streams: CommandStreams,
        *,
        stdin: bool,
        tty: bool,
    ) -> int:
        """Runs a command with streams; its exit code. Raises ContainerRuntimeError if it cannot start."""
        ...

    async def attach(
        self, sandbox: Sandbox, container: Container, streams: CommandStreams, *, stdin: bool
    ) -> None:
        """Joins the streams to the container's program until either ends."""
        ...

    async def dial(self, sandbox: Sandbox, port: int) -> Connection:
        """Connects to a port at the pod's address, for probes and proxies. Raises OSError."""
        ...

    async def port_forward(self, sandbox: Sandbox, port: int) -> Connection:
        """Connects to a port at the pod's localhost. Raises OSError; a runtime that can tell only later that
        nobody answers raises PortForwardError when the connection is read."""
        ...

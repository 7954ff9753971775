"""The runtime of one node whose containers are processes of this machine.

The processes belong to the node's shim (`shim.py`), which outlives the kubelet, and records of them are files
(`pod_records.py`): a runtime that is made again on the same directory has them.

Source: containerd's internal/cri/server (sandbox_run.go, container_create.go, container_start.go,
container_execsync.go) and the kubelet's pkg/kubelet/kuberuntime, 1.36.
"""

import asyncio
import contextlib
import errno
import hashlib
import json
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.kubelet.containers import log_reader
from kubeskew.kubelet.containers.host import plain_root, sandbox_files, shim_client
from kubeskew.kubelet.containers.host.cgroups import Cgroups
from kubeskew.kubelet.containers.host.command_streams import receive
from kubeskew.kubelet.containers.host.container_commands import ContainerCommands
from kubeskew.kubelet.containers.host.container_stats import ContainerUse
from kubeskew.kubelet.containers.host.descriptors import SocketConnection
from kubeskew.kubelet.containers.host.image_service import HostImages
from kubeskew.kubelet.containers.host.images.image_config import UnpackedImage
from kubeskew.kubelet.containers.host.log_writer import FILE_BYTES
from kubeskew.kubelet.containers.host.pod_records import PodRecords
from kubeskew.kubelet.containers.host.sandbox_networks import PodNetworks, SandboxNetworks, of_network
from kubeskew.kubelet.containers.host.shim_client import ShimClient, ShimError, ShimGoneError
from kubeskew.kubelet.containers.host.shim_record import REMOVED
from kubeskew.kubelet.containers.host.specification import (
    arguments,
    check_plain,
    check_sandbox,
    environment,
    limits_of,
    mount_order,
    signal_number,
)
from kubeskew.kubelet.containers.host.users import NETWORK, User, capabilities_of, user_of
from kubeskew.kubelet.containers.runtime_service import (
    OWN_STATUS,
    CommandResult,
    CommandStreams,
    ContainerConfig,
    ContainerResources,
    ContainerRuntimeError,
    ContainerStats,
    LogLine,
    PodSandboxConfig,
)
from kubeskew.kubelet.containers.sandbox import RUNTIME_VERSION, Container, Sandbox, full_image_name

log = logging.getLogger(__name__)

_NOT_STARTED = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "runc create failed: unable to start container process: {}: unknown"
)
_NO_NAMESPACES = (
    "this machine lets kubeskew make no namespaces ({}), which containers of the runtime host need; use the "
    "runtime host-plain"
)
_START_ERROR_CODE = 128
_KEPT_ATTEMPTS = 2  # the newest one and one dead before it (the kubelet's default garbage collection)
PROCESSES = 4096  # of a container
_STOP_SECONDS = 2.0
_POLL_SECONDS = 0.1
_RETRY_SECONDS = 1.0
_DEFAULT_SIGNAL = "SIGTERM"


class HostRuntime:
    """Runs the pods of one node. Call `load` first."""

    runs_programs = True
    is_remote = False
    version = RUNTIME_VERSION
    status = OWN_STATUS

    def __init__(
        self,
        directory: Path,
        node_name: str,
        images: HostImages,
        clock: Clock,
        entropy: Entropy,
        *,
        plain: bool = False,
        networks: PodNetworks | None = None,
        addresses: IPv4Network | None = None,
        node_address: str = "",
        overlay: bool = True,
        processes: int = PROCESSES,
        rotates_logs: bool = True,
    ) -> None:
        """`addresses` are those of the node's pods. `plain` does without namespaces. Without `overlay` each
        container has a copy of its image. `processes` is the most of a container. Without `rotates_logs` a
        kubelet does it, which then calls `reopen_log`."""
        self._directory = directory.resolve()
        self._node_name = node_name
        self._images = images
        self._clock = clock
        self._entropy = entropy
        self._plain = plain
        self._overlay = overlay
        self._processes = processes
        self._log_bytes = FILE_BYTES if rotates_logs else 0
        self._networks = SandboxNetworks(node_name, node_address, networks, addresses, clock)
        self._records = PodRecords(self._directory, node_name)
        self._commands = ContainerCommands(self._client, self._identifier)
        self._use = ContainerUse(self._directory)
        self._shim: ShimClient | None = None
        self._shim_lost = asyncio.Event()
        self._ability: dict[str, Any] = {}
        self._cgroups = Cgroups({})
        self._changed: dict[str, asyncio.Event] = {}  # set when a container ends
        self._being_started: set[str] = set()
        self._early_ends: dict[str, dict[str, Any]] = {}  # of containers whose start has not been noted
        self.on_change: Callable[[str], None] = lambda _pod_uid: None

    # -- the shim

    @property
    def addresses(self) -> IPv4Network:
        """Those of the node's pods."""
        return self._networks.addresses

    @property
    def limits_hold(self) -> Sequence[str]:
        """The controllers of cgroups by which limits of containers hold; none if they do not."""
        return self._cgroups.controllers

    def problem(self) -> str:
        return ""

    async def load(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._records.load()
        newest = max(self.sandboxes(), key=lambda sandbox: sandbox.created_at, default=None)
        if newest is not None:
            self._networks.continue_after(newest.ip)
        await self._networks.until_there()
        await self._connect()

    async def run(self) -> None:
        try:
            while True:
                await self._shim_lost.wait()
                try:
                    await self._connect()
                except (ContainerRuntimeError, OSError) as error:
                    log.warning("node %s: %s", self._node_name, error)
                    await self._clock.sleep(_RETRY_SECONDS)
        finally:
            self.disconnect()

    def disconnect(self) -> None:
        """Leaves the containers to themselves."""
        if self._shim is not None:
            self._shim.close()

    async def _connect(self) -> None:
        """Joins the shim that runs, or starts one. Raises ContainerRuntimeError."""
        connection = shim_client.connect(self._directory)
        if connection is None:
            await self._start_shim()
            connection = shim_client.connect(self._directory)
        if connection is None:
            raise ContainerRuntimeError("the process that starts containers does not answer")
        self._shim = ShimClient(connection, self._event, self._lost)
        self._shim_lost.clear()
        hello = await self._shim.call("hello")
        self._ability = hello
        self._cgroups = Cgroups({name: Path(path) for name, path in hello["cgroups"].items()})
        self._use.begin(hello["containers"])
        self._take_up(hello)

    async def _start_shim(self) -> None:
        options: dict[str, Any] = {
            "plain": self._plain,
            "overlay": self._overlay,
            "cgroup": cgroup_name(self._directory),
        }
        entered: tuple[int, ...] = ()
        if self._networks.there_is_one and os.geteuid() != 0:
            entered = await self._networks.namespaces()
            options["user_namespace"] = f"/proc/{os.getpid()}/fd/{entered[0]}"
        try:
            await shim_client.start(self._directory, **options)
        except ContainerRuntimeError as error:
            if self._plain:
                raise
            raise ContainerRuntimeError(_NO_NAMESPACES.format(error)) from error
        finally:
            for fd in entered:
                os.close(fd)

    def _take_up(self, hello: Mapping[str, Any]) -> None:
        """Brings the records up to what the shim has, and ends what no record knows."""
        known = set()
        for left in sorted((self._directory / REMOVED).glob("*")):
            self._post("remove_layer", path=str(left))
        for sandbox in self.sandboxes():
            changed = False
            for container in sandbox.containers:
                known.add(container.id)
                if container.ends_at is None and container.id not in hello["containers"]:
                    self._end(container, self._records.kept_end(container.id))
                    changed = True
            if sandbox.ready and sandbox.id not in hello["sandboxes"]:
                sandbox.ready = False
                changed = True
            if changed:
                self._records.save(sandbox)
                self.on_change(sandbox.pod_uid)
        for container_id in sorted(set(hello["containers"]) - known):
            self._post("stop", container=container_id, signal=int(signal.SIGKILL), grace=0)
        sandbox_ids = {sandbox.id for sandbox in self.sandboxes() if sandbox.ready}
        for sandbox_id in sorted(set(hello["sandboxes"]) - sandbox_ids):
            self._post("remove_sandbox", sandbox=sandbox_id)

    def _lost(self) -> None:
        """All containers have ended with the shim."""
        self._commands.end_all()
        self._shim_lost.set()

    def _event(self, event: dict[str, Any]) -> None:
        if event["event"] == "exec_exit":
            self._commands.end(event["exec"], event["code"])
            return
        found = self._records.container(event["container"])
        if found is not None and found[1].ends_at is None:
            sandbox, container = found
            self._end(container, event)
            self._records.save(sandbox)
            self.on_change(sandbox.pod_uid)
            return
        if event["container"] in self._being_started:
            self._early_ends[event["container"]] = event

    def _end(self, container: Container, end: Mapping[str, Any]) -> None:
        moment = datetime.fromisoformat(end["time"]) if end["time"] else self._clock.now()
        container.ends_at = max(moment, container.started_at)
        container.exit_code = end["code"]
        container.reason = end["reason"]
        self._changed.setdefault(container.id, asyncio.Event()).set()

    def _client(self) -> ShimClient:
        if self._shim is None:
            raise ShimGoneError("the runtime is not loaded")
        return self._shim

    def _post(self, method: str, **body: Any) -> None:
        with contextlib.suppress(ShimError):
            self._client().post(method, **body)

    # -- reading

    def sandboxes(self) -> Sequence[Sandbox]:
        return self._records.sandboxes()

    def sandbox(self, pod_uid: str) -> Sandbox | None:
        return self._records.sandbox(pod_uid)

    # -- sandboxes

    async def run_pod_sandbox(self, config: PodSandboxConfig) -> Sandbox:
        check_sandbox(config, plain=self._plain)
        namespace, address = await self._networks.join(config, self._used_addresses)
        sandbox = Sandbox(
            pod_uid=config.uid,
            namespace=config.namespace,
            name=config.name,
            id=self._identifier(),
            ip=address,
            created_at=self._clock.now(),
            hostname=config.hostname,
        )
        before = self._records.sandbox(config.uid)
        if before is not None:
            sandbox.containers = before.containers
        try:
            await self._client().call(
                "sandbox",
                () if namespace is None else [namespace.network],
                sandbox=sandbox.id,
                hostname=config.hostname,
                own_network=namespace is None and not config.host_network,
                host_ipc=config.host_ipc,
                host_pid=config.host_pid,
                shares_pid=config.shares_pid and not config.host_pid,
                sysctls={
                    name: value
                    for name, value in config.sysctls.items()
                    if namespace is None or name not in of_network(config.sysctls)
                },
            )
        except ShimError as error:
            raise ContainerRuntimeError(f"failed to create containerd task: {error}") from error
        finally:
            if namespace is not None:
                namespace.close()
        sandbox_files.write(
            self._records.files(config.uid),
            address,
            config,
            has_machine_resolver=config.host_network or not self._networks.there_is_one,
        )
        self._records.add(sandbox, config)
        return sandbox

    def _used_addresses(self) -> set[str]:
        return {sandbox.ip for sandbox in self.sandboxes() if sandbox.ready}

    async def stop_pod_sandbox(self, sandbox: Sandbox) -> None:
        with contextlib.suppress(ShimGoneError):
            await self._client().call("remove_sandbox", sandbox=sandbox.id)
        for container in sandbox.running(self._clock.now()):
            await self._until_ended(container, _STOP_SECONDS)
        await self._networks.leave(sandbox.pod_uid)
        sandbox.ready = False
        self._records.save(sandbox)

    async def remove_pod_sandbox(self, pod_uid: str) -> None:
        sandbox = self._records.sandbox(pod_uid)
        if sandbox is None:
            return
        if sandbox.ready:
            await self.stop_pod_sandbox(sandbox)
        else:
            await self._networks.leave(pod_uid)  # also of a sandbox that ended with its shim
        for container in sandbox.containers:
            self._forget(container)
        self._records.remove(pod_uid)
        self._discard(self._records.files(pod_uid))

    # -- containers

    async def start_container(self, sandbox: Sandbox, config: ContainerConfig) -> Container:
        image = await asyncio.to_thread(self._images.unpacked, config.image)
        if image is None:
            raise ContainerRuntimeError(f'failed to get image "{config.image}": not found')
        before = sandbox.latest(config.name)
        container = Container(
            id=config.id or self._identifier(),
            name=config.name,
            attempt=before.attempt + 1 if before is not None else 0,
            image=full_image_name(config.image),
            image_reference=self._images.reference(config.image),
            started_at=self._clock.now(),
            env=dict(config.env),
            cdi_devices=[device.name for device in config.cdi_devices],
            argv=arguments(config, image),
            directory=config.working_directory or image.config.working_directory or "/",
            stdin=config.stdin,
            stdin_once=config.stdin_once,
            tty=config.tty,
            annotations={**config.annotations, STOP_SIGNAL: config.stop_signal or image.config.stop_signal},
            device_nodes=[
                {
                    "path": device.container_path,
                    "host_path": device.host_path,
                    "permissions": device.permissions,
                }
                for device in config.devices
            ],
            host_mounts=[
                {
                    "path": mount.container_path,
                    "host_path": str(mount.host_path),
                    "read_only": mount.read_only,
                }
                for mount in config.mounts
            ],
        )
        user = user_of(image.root, image.config.user, config.security)
        spec = self._spec(sandbox, container, config, image, user)
        log_file = self._records.log(sandbox, container)
        self._being_started.add(container.id)
        try:
            answer = await self._client().call(
                "start",
                container=container.id,
                sandbox=sandbox.id,
                spec=spec,
                log=str(log_file),
                log_bytes=self._log_bytes,
                stdin=config.stdin,
                stdin_once=config.stdin_once,
                limits=limits_of(config.resources, self._processes)._asdict(),
            )
            self._use.add(container, answer["pid"])
            container.started_at = self._clock.now()
        except ShimError as error:
            self._discard(self._records.layer(container))
            if error.kind != "start":
                raise ContainerRuntimeError(f"failed to create containerd task: {error}") from error
            container.started_at = self._clock.now()
            container.ends_at = container.started_at
            container.exit_code, container.reason = _START_ERROR_CODE, "StartError"
            container.message = _NOT_STARTED.format(error)
        finally:
            self._being_started.discard(container.id)
        sandbox.containers.append(container)
        oldest = container.attempt - _KEPT_ATTEMPTS + 1
        for old in [c for c in sandbox.containers if c.name == config.name and c.attempt < oldest]:
            sandbox.containers.remove(old)
            self._forget(old)
            for path in sorted(log_file.parent.glob(f"{old.attempt}.log*")):
                path.unlink(missing_ok=True)
        self._records.save(sandbox)
        if container.id in self._early_ends:
            self._event(self._early_ends.pop(container.id))
        return container

    def _spec(
        self,
        sandbox: Sandbox,
        container: Container,
        config: ContainerConfig,
        image: UnpackedImage,
        user: User,
    ) -> dict[str, Any]:
        """The shim's order. Raises ContainerRuntimeError for what cannot be had here."""
        security = config.security
        capabilities = capabilities_of(security)
        rootless = bool(self._ability.get("rootless"))
        keeps_network = (
            bool(capabilities & NETWORK & ~capabilities_of(_PLAIN_SECURITY)) or security.privileged
        )
        nested = rootless and not (keeps_network and user.uid == 0)
        if rootless and set(security.supplemental_groups) - {user.gid}:
            # runc's text, libcontainer/init_linux.go.
            raise ContainerRuntimeError(
                _NOT_STARTED.format(
                    "error during container init: cannot set any additional groups in a rootless container"
                )
            )
        mounts = sandbox_files.mounts(self._records.files(sandbox.pod_uid), config)
        spec: dict[str, Any] = {
            "layer": str(self._records.layer(container)),
            "lower": str(image.root),
            "mounts": [mount_order(mount) for mount in mounts],
            "devices": [
                {
                    "target": device.container_path,
                    "source": device.host_path,
                    "permissions": device.permissions,
                }
                for device in config.devices
            ],
            "argv": container.argv,
            "env": environment(sandbox, config, image, user),
            "cwd": container.directory,
            "uid": user.uid,
            "gid": user.gid,
            "groups": [*user.groups],
            "nested": nested,
            "capabilities": capabilities,
            "no_new_privileges": security.no_new_privileges,
            "read_only_root": security.read_only_root,
            "privileged": security.privileged,
            "unmasked": security.privileged or security.unmasked_proc,
            "tty": config.tty,
            "oom_score": config.resources.oom_score_adjustment,
            "processes": self._processes,
        }
        if self._plain:
            check_plain(config, user)
            plain_root.rewrite(spec)
        return spec

    def stop_container(self, sandbox: Sandbox, container: Container, grace: float) -> None:
        name = container.annotations.get(STOP_SIGNAL) or _DEFAULT_SIGNAL
        self._post("stop", container=container.id, signal=signal_number(name), grace=max(grace, 0.0))

    async def update_resources(
        self,
        sandbox: Sandbox,
        container: Container,
        resources: ContainerResources,
        annotations: Mapping[str, str],
    ) -> None:
        try:
            await asyncio.to_thread(self._cgroups.update, container.id, limits_of(resources, self._processes))
        except OSError as error:
            raise ContainerRuntimeError(f"failed to update resources: {error.strerror or error}") from error
        container.annotations.update(annotations)
        self._records.save(sandbox)

    async def measure(self) -> None:
        """Does nothing: `stats` reads the cgroups."""

    def stats(self, sandbox: Sandbox, container: Container, at: datetime | None = None) -> ContainerStats:
        written = self._records.layer(container) / ("upper" if self._ability.get("overlay") else "root")
        return self._use.stats(container, self._cgroups, written)

    # -- within containers

    def logs(self, sandbox: Sandbox, container: Container) -> Sequence[LogLine]:
        return log_reader.read(self._records.log(sandbox, container))

    def follow_logs(self, sandbox: Sandbox, container: Container) -> AsyncIterator[LogLine]:
        follower = log_reader.LogFollower(self._records.log(sandbox, container))
        return log_reader.followed(
            follower,
            lambda: container.ends_at is not None,
            lambda: self._until_ended(container, _POLL_SECONDS),
        )

    async def reopen_log(self, sandbox: Sandbox, container: Container) -> None:
        try:
            await self._client().call("reopen_log", container=container.id)
        except ShimError as error:
            raise ContainerRuntimeError(f"failed to reopen container log: {error}") from error

    async def exec_sync(
        self, sandbox: Sandbox, container: Container, command: Sequence[str], seconds: float
    ) -> CommandResult:
        return await self._commands.run(container, command, seconds)

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
        return await self._commands.stream(container, command, streams, stdin=stdin, tty=tty)

    async def attach(
        self, sandbox: Sandbox, container: Container, streams: CommandStreams, *, stdin: bool
    ) -> None:
        await self._commands.attach(container, streams, stdin=stdin)

    async def dial(self, sandbox: Sandbox, port: int) -> SocketConnection:
        here, there = socket.socketpair()
        here.setblocking(False)
        try:
            with there:
                await self._client().call("dial", [there.fileno()], sandbox=sandbox.id, port=port)
            data, fds = await receive(here)
        except ShimError as error:
            raise OSError(errno.ECONNREFUSED, str(error)) from error
        finally:
            here.close()
        if fds:
            return SocketConnection(socket.socket(fileno=fds[0]))
        number = json.loads(data)["errno"] if data else errno.ECONNREFUSED
        raise OSError(number, f"dial tcp {sandbox.ip}:{port}: connect: {os.strerror(number).lower()}")

    async def port_forward(self, sandbox: Sandbox, port: int) -> SocketConnection:
        return await self.dial(sandbox, port)

    # -- state

    async def _until_ended(self, container: Container, seconds: float) -> None:
        if container.ends_at is not None:
            return
        event = self._changed.setdefault(container.id, asyncio.Event())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()

    def _forget(self, container: Container) -> None:
        layer = self._records.layer(container)
        self._changed.pop(container.id, None)
        self._records.forget_end(container.id)
        self._use.remove(container, layer)
        self._discard(layer)

    def _discard(self, path: Path) -> None:
        """Removes a directory, in its own time: its name is free at once."""
        moved = self._directory / REMOVED / self._identifier()
        try:
            moved.parent.mkdir(exist_ok=True)
            path.rename(moved)
        except OSError:
            return  # it was never made
        self._post("remove_layer", path=str(moved))

    def _identifier(self) -> str:
        return (self._entropy.uid() + self._entropy.uid()).replace("-", "")


STOP_SIGNAL = "kubeskew.io/stop-signal"  # in the record of a container
_PLAIN_SECURITY = ContainerConfig("", "").security


def cgroup_name(directory: Path) -> str:
    """The name of the cgroups of a node, by its directory."""
    return f"kubeskew-{hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:16]}"

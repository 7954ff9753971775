"""The runtime of one node whose containers are processes of this machine.

Records are files of this runtime, one per pod. The processes belong to the node's shim (`shim.py`), which
outlives the kubelet: a runtime that is made again on the same directory has them.

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
from typing import Any, Protocol

import orjson

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.containers.host import log_reader, plain_root, shim_client, usage
from kubeskew.kubelet.containers.host.cgroups import Cgroups
from kubeskew.kubelet.containers.host.command_streams import copy, feed, follow_size, receive
from kubeskew.kubelet.containers.host.descriptors import Descriptor, SocketConnection
from kubeskew.kubelet.containers.host.image_service import HostImages
from kubeskew.kubelet.containers.host.images.image_config import UnpackedImage
from kubeskew.kubelet.containers.host.images.store import size_of
from kubeskew.kubelet.containers.host.log_writer import FILE_BYTES
from kubeskew.kubelet.containers.host.shim_client import ShimClient, ShimError, ShimGoneError
from kubeskew.kubelet.containers.host.shim_record import CONTAINERS, EXITS, RECORD, REMOVED
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
    CommandResult,
    CommandStreams,
    CommandTimeoutError,
    ContainerConfig,
    ContainerResources,
    ContainerRuntimeError,
    ContainerStats,
    LogLine,
    Mount,
    PodSandboxConfig,
)
from kubeskew.kubelet.containers.sandbox import Container, Sandbox, full_image_name, sandbox_from
from kubeskew.kubelet.files import UNJOURNALLED

log = logging.getLogger(__name__)

_NOT_STARTED = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "runc create failed: unable to start container process: {}: unknown"
)
_NOT_EXECUTED = (
    "failed to exec in container: failed to start exec: OCI runtime exec failed: exec failed: "
    "unable to start container process: {}: unknown"
)
_NO_NAMESPACES = (
    "this machine lets kubeskew make no namespaces ({}), which containers of the runtime host need; use the "
    "runtime host-plain"
)
_START_ERROR_CODE = 128
_UNKNOWN_CODE = 255  # as containerd has it for a container of which it does not know how it ended
_KEPT_ATTEMPTS = 2  # the newest one and one dead before it (the kubelet's default garbage collection)
PROCESSES = 4096  # of a container
_MOST_OUTPUT = 16 * 1024 * 1024  # of a command's output, as containerd has it
_DRAIN_SECONDS = 1.0
_STOP_SECONDS = 2.0
_POLL_SECONDS = 0.1
_RETRY_SECONDS = 1.0
_ADDRESS_TRIES = 250
_NETWORK_SECONDS = 30.0  # for which a node waits for the network, which may start with it
_DEFAULT_SIGNAL = "SIGTERM"


class PodNamespace(Protocol):
    @property
    def network(self) -> int: ...

    def close(self) -> None: ...


class PodNetworks(Protocol):
    """Makes the network namespaces of pods; `apimachinery.process.network_agent` has one."""

    def is_there(self) -> bool:
        """The agent answers."""
        ...

    def namespaces(self) -> tuple[int, int]: ...

    def add_pod(self, uid: str, address: str, sysctls: Mapping[str, str] | None = None) -> PodNamespace: ...

    def add_node(self, name: str, address: str) -> PodNamespace: ...

    def remove_pod(self, uid: str) -> None: ...


class HostRuntime:
    """Runs the pods of one node. Call `load` first."""

    runs_programs = True

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
        self._networks = networks
        digest = hashlib.sha256(node_name.encode()).digest()
        self.addresses = addresses or IPv4Network(f"10.{128 + digest[0] % 120}.{digest[1]}.0/24")
        self._node_address = node_address
        self._last_host = 1
        self._sandboxes: dict[str, Sandbox] = {}
        self._configs: dict[str, Object] = {}  # what a sandbox was asked for, by pod UID
        self._shim: ShimClient | None = None
        self._shim_lost = asyncio.Event()
        self._ability: dict[str, Any] = {}
        self._cgroups = Cgroups({})
        self._host_pids: dict[str, int] = {}
        self._inner_pids: dict[str, int] = {}
        self._sizes: dict[Path, int] = {}  # of what containers have written, by directory
        self._counting: dict[Path, asyncio.Future[int]] = {}
        self._changed: dict[str, asyncio.Event] = {}  # set when a container ends
        self._commands: dict[str, asyncio.Future[int]] = {}  # the exit codes of those that are waited for
        self._being_started: set[str] = set()
        self._early_ends: dict[str, dict[str, Any]] = {}  # of containers whose start has not been noted
        self.on_change: Callable[[str], None] = lambda _pod_uid: None

    # -- the shim

    @property
    def limits_hold(self) -> Sequence[str]:
        """The controllers of cgroups by which limits of containers hold; none if they do not."""
        return self._cgroups.controllers

    async def load(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for path in sorted((self._directory / "pods").glob("*.json")):
            content = UNJOURNALLED.read(path)
            if not content:
                path.unlink(missing_ok=True)
                continue
            record = orjson.loads(content)
            self._configs[path.stem] = record["config"]
            self._sandboxes[path.stem] = sandbox_from(record["sandbox"])
        newest = max(self._sandboxes.values(), key=lambda sandbox: sandbox.created_at, default=None)
        if newest is not None and newest.ip.count(".") == 3:
            self._last_host = int(newest.ip.rpartition(".")[2])
        if self._networks is not None:
            await self._until_there(self._networks)
        await self._connect()

    async def _until_there(self, networks: PodNetworks) -> None:
        """Waits for the network's agent; if none comes in time, sandboxes fail until it does."""
        ends = self._clock.monotonic() + _NETWORK_SECONDS
        while not await asyncio.to_thread(networks.is_there) and self._clock.monotonic() < ends:
            await self._clock.sleep(_POLL_SECONDS)

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
        self._inner_pids = dict(hello["containers"])
        self._host_pids.clear()
        self._take_up(hello)

    async def _start_shim(self) -> None:
        options: dict[str, Any] = {
            "plain": self._plain,
            "overlay": self._overlay,
            "cgroup": cgroup_name(self._directory),
        }
        entered: tuple[int, ...] = ()
        if self._networks is not None and not self._plain and os.geteuid() != 0:
            entered = await self._network_namespaces(self._networks)
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

    async def _network_namespaces(self, networks: PodNetworks) -> tuple[int, int]:
        """Raises ContainerRuntimeError."""
        try:
            return await asyncio.to_thread(networks.namespaces)
        except OSError as error:
            raise ContainerRuntimeError(f"the network of pods cannot be had: {error}") from error

    def _take_up(self, hello: Mapping[str, Any]) -> None:
        """Brings the records up to what the shim has, and ends what no record knows."""
        known = set()
        for left in sorted((self._directory / REMOVED).glob("*")):
            self._post("remove_layer", path=str(left))
        for sandbox in self._sandboxes.values():
            changed = False
            for container in sandbox.containers:
                known.add(container.id)
                if container.ends_at is None and container.id not in hello["containers"]:
                    self._end(container, self._kept_end(container.id))
                    changed = True
            if sandbox.ready and sandbox.id not in hello["sandboxes"]:
                sandbox.ready = False
                changed = True
            if changed:
                self._save(sandbox)
                self.on_change(sandbox.pod_uid)
        for container_id in sorted(set(hello["containers"]) - known):
            self._post("stop", container=container_id, signal=int(signal.SIGKILL), grace=0)
        sandbox_ids = {sandbox.id for sandbox in self._sandboxes.values() if sandbox.ready}
        for sandbox_id in sorted(set(hello["sandboxes"]) - sandbox_ids):
            self._post("remove_sandbox", sandbox=sandbox_id)

    def _lost(self) -> None:
        """All containers have ended with the shim."""
        for future in self._commands.values():
            if not future.done():
                future.set_result(_UNKNOWN_CODE)
        self._shim_lost.set()

    def _event(self, event: dict[str, Any]) -> None:
        if event["event"] == "exec_exit":
            future = self._commands.get(event["exec"])
            if future is not None and not future.done():
                future.set_result(event["code"])
            return
        for sandbox in self._sandboxes.values():
            for container in sandbox.containers:
                if container.id == event["container"] and container.ends_at is None:
                    self._end(container, event)
                    self._save(sandbox)
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

    def _kept_end(self, container_id: str) -> Mapping[str, Any]:
        """The end that the shim has kept, or that of a container that ended with its shim."""
        content = UNJOURNALLED.read(self._exit_file(container_id))
        if content:
            with contextlib.suppress(ValueError):
                end: Mapping[str, Any] = json.loads(content)
                return end
        return {"code": _UNKNOWN_CODE, "time": "", "reason": "Unknown"}

    def _client(self) -> ShimClient:
        if self._shim is None:
            raise ShimGoneError("the runtime is not loaded")
        return self._shim

    def _post(self, method: str, **body: Any) -> None:
        with contextlib.suppress(ShimError):
            self._client().post(method, **body)

    # -- reading

    def sandboxes(self) -> Sequence[Sandbox]:
        return [*self._sandboxes.values()]

    def sandbox(self, pod_uid: str) -> Sandbox | None:
        return self._sandboxes.get(pod_uid)

    # -- sandboxes

    async def run_pod_sandbox(self, config: PodSandboxConfig) -> Sandbox:
        check_sandbox(config, plain=self._plain)
        namespace, address = await self._network_of(config)
        sandbox = Sandbox(
            pod_uid=config.uid,
            namespace=config.namespace,
            name=config.name,
            id=self._identifier(),
            ip=address,
            created_at=self._clock.now(),
            hostname=config.hostname,
        )
        before = self._sandboxes.get(config.uid)
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
                    if namespace is None or name not in _of_network(config.sysctls)
                },
            )
        except ShimError as error:
            raise ContainerRuntimeError(f"failed to create containerd task: {error}") from error
        finally:
            if namespace is not None:
                namespace.close()
        self._write_sandbox_files(sandbox, config)
        self._sandboxes[config.uid] = sandbox
        self._configs[config.uid] = {
            "logs": str(config.log_directory),
            "hostNetwork": config.host_network,
            "sysctls": dict(config.sysctls),
        }
        self._save(sandbox)
        return sandbox

    async def _network_of(self, config: PodSandboxConfig) -> tuple[PodNamespace | None, str]:
        """The pod's network namespace, unless it gets one of its own without a network, and its address."""
        if config.host_network and self._node_address:
            if self._networks is None:
                return None, self._node_address
            add_node = self._networks.add_node
            return await _set_up(add_node, self._node_name, self._node_address), self._node_address
        await self._leave_network(config.uid)  # what a sandbox before, or one that failed, has left
        for _try in range(_ADDRESS_TRIES):
            address = self._address()
            if self._networks is None:
                return None, address
            try:
                sysctls = _of_network(config.sysctls)
                return await _set_up(self._networks.add_pod, config.uid, address, sysctls), address
            except AddressInUseError:
                continue
        raise ContainerRuntimeError("failed to setup network for sandbox: all addresses are in use")

    async def _leave_network(self, pod_uid: str) -> None:
        if self._networks is not None and not self._plain:
            with contextlib.suppress(OSError):
                await asyncio.to_thread(self._networks.remove_pod, pod_uid)

    def _write_sandbox_files(self, sandbox: Sandbox, config: PodSandboxConfig) -> None:
        directory = self._files_of(sandbox.pod_uid)
        directory.mkdir(parents=True, exist_ok=True)
        config.log_directory.mkdir(parents=True, exist_ok=True)
        lines = []
        if config.dns is not None:
            if config.dns.searches:
                lines.append("search " + " ".join(config.dns.searches))
            lines += [f"nameserver {server}" for server in config.dns.servers]
            if config.dns.options:
                lines.append("options " + " ".join(config.dns.options))
        elif config.host_network or self._networks is None:
            with contextlib.suppress(OSError):
                lines = Path("/etc/resolv.conf").read_text().splitlines()
        (directory / "resolv.conf").write_text("\n".join([*lines, ""]))
        (directory / "hostname").write_text(f"{config.hostname}\n")
        hosts = [
            "127.0.0.1\tlocalhost",
            "::1\tlocalhost ip6-localhost ip6-loopback",
            "fe00::0\tip6-localnet",
            "fe00::0\tip6-mcastprefix",
            "fe00::1\tip6-allnodes",
            "fe00::2\tip6-allrouters",
            f"{sandbox.ip}\t{config.hostname}",
        ]
        (directory / "hosts").write_text("\n".join([*hosts, ""]))

    async def stop_pod_sandbox(self, sandbox: Sandbox) -> None:
        with contextlib.suppress(ShimGoneError):
            await self._client().call("remove_sandbox", sandbox=sandbox.id)
        for container in sandbox.running(self._clock.now()):
            await self._until_ended(container, _STOP_SECONDS)
        await self._leave_network(sandbox.pod_uid)
        sandbox.ready = False
        self._save(sandbox)

    async def remove_pod_sandbox(self, pod_uid: str) -> None:
        sandbox = self._sandboxes.get(pod_uid)
        if sandbox is None:
            return
        if sandbox.ready:
            await self.stop_pod_sandbox(sandbox)
        else:
            await self._leave_network(pod_uid)  # also of a sandbox that ended with its shim
        self._sandboxes.pop(pod_uid, None)
        self._configs.pop(pod_uid, None)
        for container in sandbox.containers:
            self._forget(container)
        UNJOURNALLED.remove(self._directory / "pods" / f"{pod_uid}.json")
        self._discard(self._files_of(pod_uid))

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
        log_file = self._log(sandbox, container)
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
            self._inner_pids[container.id] = answer["pid"]
            container.started_at = self._clock.now()
        except ShimError as error:
            self._discard(self._layer(container))
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
        self._save(sandbox)
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
        spec: dict[str, Any] = {
            "layer": str(self._layer(container)),
            "lower": str(image.root),
            "mounts": [mount_order(mount) for mount in self._mounts(sandbox, config)],
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

    def _mounts(self, sandbox: Sandbox, config: ContainerConfig) -> list[Mount]:
        directory = self._files_of(sandbox.pod_uid)
        taken = {mount.container_path.rstrip("/") for mount in config.mounts}
        own = [
            Mount(f"/etc/{name}", directory / name, config.security.read_only_root)
            for name in ("hosts", "hostname", "resolv.conf")
        ]
        return [*(mount for mount in own if mount.container_path not in taken), *config.mounts]

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
        self._save(sandbox)

    def stats(self, sandbox: Sandbox, container: Container) -> ContainerStats:
        found = self._cgroups.usage(container.id)
        if found is None and container.ends_at is None:
            pid = self._host_pid(container)
            found = usage.of_tree(pid) if pid is not None else None
        if found is None:
            return ContainerStats(0.0, 0, 0, 0)
        upper = self._layer(container) / ("upper" if self._ability.get("overlay") else "root")
        return ContainerStats(
            found.core_seconds, found.working_set, found.resident, found.processes, self._written_to(upper)
        )

    def _written_to(self, upper: Path) -> int:
        """The bytes of a container's files when they were last counted, which may take long."""
        if upper not in self._counting:
            counting = asyncio.get_running_loop().run_in_executor(None, size_of, upper)
            self._counting[upper] = counting
            counting.add_done_callback(lambda _counted: self._note_size(upper))
        return self._sizes.get(upper, 0)

    def _note_size(self, upper: Path) -> None:
        counted = self._counting.pop(upper)
        if not counted.cancelled() and upper.parent.exists():
            self._sizes[upper] = counted.result()
        else:
            self._sizes.pop(upper, None)

    def _host_pid(self, container: Container) -> int | None:
        pid = self._host_pids.get(container.id)
        if pid is None and container.id in self._inner_pids:
            with contextlib.suppress(OSError, ValueError, KeyError):
                record = json.loads((self._directory / RECORD).read_text())
                pid = usage.host_pid(record["pid"], self._inner_pids[container.id])
                if pid is not None:
                    self._host_pids[container.id] = pid
        return pid

    # -- within containers

    def logs(self, sandbox: Sandbox, container: Container) -> Sequence[LogLine]:
        return log_reader.read(self._log(sandbox, container))

    def follow_logs(self, sandbox: Sandbox, container: Container) -> AsyncIterator[LogLine]:
        return self._followed(log_reader.LogFollower(self._log(sandbox, container)), container)

    async def _followed(
        self, follower: log_reader.LogFollower, container: Container
    ) -> AsyncIterator[LogLine]:
        try:
            while True:
                running = container.ends_at is None
                for line in follower.read():
                    yield line
                if not running:
                    return
                await self._until_ended(container, _POLL_SECONDS)
        finally:
            follower.close()

    async def reopen_log(self, sandbox: Sandbox, container: Container) -> None:
        try:
            await self._client().call("reopen_log", container=container.id)
        except ShimError as error:
            raise ContainerRuntimeError(f"failed to reopen container log: {error}") from error

    async def exec_sync(
        self, sandbox: Sandbox, container: Container, command: Sequence[str], seconds: float
    ) -> CommandResult:
        output = {"stdout": bytearray(), "stderr": bytearray()}
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        readers: dict[str, Descriptor] = {}
        writers = []
        for name in output:
            reading, writing = os.pipe()
            readers[name] = Descriptor(reading)
            writers.append(writing)
        try:
            answer = await self._exec(container, command, [null, *writers], tty=False)
        except BaseException:
            for reader in readers.values():
                reader.close()
            raise
        finally:
            for fd in (null, *writers):
                os.close(fd)

        async def gather(name: str) -> None:
            while data := await readers[name].read():
                room = _MOST_OUTPUT - len(output[name])
                output[name] += data[:room]

        reading_all = [asyncio.ensure_future(gather(name)) for name in output]
        try:
            async with asyncio.timeout(seconds if seconds > 0 else None):
                code = await self._command_end(answer["exec"])
        except TimeoutError:
            self._post("kill_process", pid=answer["pid"])
            text = f"command {' '.join(command)!r} timed out"
            raise CommandTimeoutError(
                f"failed to exec in container: timeout {seconds:g}s exceeded: context deadline exceeded"
            ) from TimeoutError(text)
        finally:
            await asyncio.wait(reading_all, timeout=_DRAIN_SECONDS)
            for task in reading_all:
                task.cancel()
            for reader in readers.values():
                reader.close()
        return CommandResult(code, bytes(output["stdout"]), bytes(output["stderr"]))

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
        if tty:
            return await self._exec_on_terminal(container, command, streams, stdin=stdin)
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        first, writer = null, None
        if stdin:
            first, writing = os.pipe()
            writer = Descriptor(writing)
        pipes = [os.pipe(), os.pipe()]
        readers = [Descriptor(reading) for reading, _ in pipes]
        try:
            answer = await self._exec(
                container, command, [first, *(writing for _, writing in pipes)], tty=False
            )
        except BaseException:
            for descriptor in (*readers, *([writer] if writer else [])):
                descriptor.close()
            raise
        finally:
            for fd in sorted({null, first, *(writing for _, writing in pipes)}):
                os.close(fd)
        outputs = [
            asyncio.ensure_future(copy(readers[0], streams.write_stdout)),
            asyncio.ensure_future(copy(readers[1], streams.write_stderr)),
        ]
        inputs = [asyncio.ensure_future(feed(streams, writer))] if writer is not None else []
        return await self._until_command_ends(
            answer, outputs, inputs, [*readers, *([writer] if writer else [])]
        )

    async def _exec_on_terminal(
        self, container: Container, command: Sequence[str], streams: CommandStreams, *, stdin: bool
    ) -> int:
        here, there = socket.socketpair()
        with here:
            try:
                answer = await self._exec(container, command, [there.fileno()], tty=True)
            finally:
                there.close()
            here.setblocking(False)
            try:
                _data, fds, _flags, _address = socket.recv_fds(here, 64, 1)
            except OSError as error:
                del self._commands[answer["exec"]]
                raise ContainerRuntimeError("the command has no terminal") from error
        terminal = Descriptor(fds[0])
        outputs = [asyncio.ensure_future(copy(terminal, streams.write_stdout))]
        inputs = [asyncio.ensure_future(follow_size(terminal, streams))]
        if stdin:
            inputs.append(asyncio.ensure_future(feed(streams, terminal, closes=False)))
        return await self._until_command_ends(answer, outputs, inputs, [terminal])

    async def _until_command_ends(
        self,
        answer: Mapping[str, Any],
        outputs: Sequence[asyncio.Task[None]],
        inputs: Sequence[asyncio.Task[None]],
        descriptors: Sequence[Descriptor],
    ) -> int:
        ended = False
        try:
            code = await self._command_end(answer["exec"])
            ended = True
            await asyncio.wait(outputs, timeout=_DRAIN_SECONDS)
            return code
        finally:
            if not ended:
                self._post("kill_process", pid=answer["pid"])
            for task in (*outputs, *inputs):
                task.cancel()
            await asyncio.gather(*outputs, *inputs, return_exceptions=True)
            for descriptor in descriptors:
                descriptor.close()

    async def _exec(
        self, container: Container, command: Sequence[str], files: Sequence[int], *, tty: bool
    ) -> dict[str, Any]:
        name = self._identifier()
        self._commands[name] = asyncio.get_running_loop().create_future()
        try:
            answer = await self._client().call(
                "exec", files, exec=name, container=container.id, argv=[*command], tty=tty
            )
        except BaseException as error:
            del self._commands[name]
            if not isinstance(error, ShimError):
                raise
            if error.kind == "start":
                raise ContainerRuntimeError(_NOT_EXECUTED.format(error)) from error
            raise ContainerRuntimeError(f"failed to exec in container: {error}") from error
        return {**answer, "exec": name}

    async def _command_end(self, name: str) -> int:
        try:
            return await self._commands[name]
        finally:
            del self._commands[name]

    async def attach(
        self, sandbox: Sandbox, container: Container, streams: CommandStreams, *, stdin: bool
    ) -> None:
        pipes = [os.pipe(), os.pipe()]
        readers = [Descriptor(reading) for reading, _ in pipes]
        try:
            answer, passed = await self._client().call_for_files(
                "attach", [writing for _, writing in pipes], container=container.id, stdin=stdin
            )
        except ShimError as error:
            for reader in readers:
                reader.close()
            raise ContainerRuntimeError(f"failed to attach container: {error}") from error
        finally:
            for _, writing in pipes:
                os.close(writing)
        tasks = [
            asyncio.ensure_future(copy(readers[0], streams.write_stdout)),
            asyncio.ensure_future(copy(readers[1], streams.write_stderr)),
        ]
        extra = []
        writer = Descriptor(passed[0]) if answer["stdin"] else None
        if writer is not None:
            extra.append(asyncio.ensure_future(self._feed_container(container, streams, writer)))
            if container.tty:
                extra.append(asyncio.ensure_future(follow_size(writer, streams)))
        try:
            await asyncio.wait(tasks)
        finally:
            for task in (*tasks, *extra):
                task.cancel()
            await asyncio.gather(*tasks, *extra, return_exceptions=True)
            for descriptor in (*readers, *([writer] if writer else [])):
                descriptor.close()
            if writer is not None and container.stdin_once:
                self._post("detach", container=container.id)

    async def _feed_container(
        self, container: Container, streams: CommandStreams, writer: Descriptor
    ) -> None:
        await feed(streams, writer, closes=not container.tty)
        if container.stdin_once:
            self._post("detach", container=container.id)

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

    # -- state

    async def _until_ended(self, container: Container, seconds: float) -> None:
        if container.ends_at is not None:
            return
        event = self._changed.setdefault(container.id, asyncio.Event())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()

    def _forget(self, container: Container) -> None:
        for known in (self._changed, self._host_pids, self._inner_pids):
            known.pop(container.id, None)
        self._exit_file(container.id).unlink(missing_ok=True)
        for name in ("upper", "root"):
            self._sizes.pop(self._layer(container) / name, None)
        self._discard(self._layer(container))

    def _discard(self, path: Path) -> None:
        """Removes a directory, in its own time: its name is free at once."""
        moved = self._directory / REMOVED / self._identifier()
        try:
            moved.parent.mkdir(exist_ok=True)
            path.rename(moved)
        except OSError:
            return  # it was never made
        self._post("remove_layer", path=str(moved))

    def _layer(self, container: Container) -> Path:
        return self._directory / CONTAINERS / container.id

    def _files_of(self, pod_uid: str) -> Path:
        return self._directory / "sandboxes" / pod_uid

    def _log(self, sandbox: Sandbox, container: Container) -> Path:
        config = self._configs.get(sandbox.pod_uid) or {"logs": str(self._files_of(sandbox.pod_uid) / "logs")}
        return Path(config["logs"]) / container.name / f"{container.attempt}.log"

    def _save(self, sandbox: Sandbox) -> None:
        if sandbox.pod_uid in self._configs:
            record = {"config": self._configs[sandbox.pod_uid], "sandbox": sandbox}
            path = self._directory / "pods" / f"{sandbox.pod_uid}.json"
            try:
                UNJOURNALLED.write(path, orjson.dumps(record, option=orjson.OPT_INDENT_2))
            except OSError as error:  # such as a full disk: the kubelet goes on with what it knows
                log.warning("node %s: the record of a pod cannot be written: %s", self._node_name, error)
                return
        for container in sandbox.containers:
            if container.ends_at is not None:
                self._exit_file(container.id).unlink(missing_ok=True)

    def _exit_file(self, container_id: str) -> Path:
        """The end of a container as the shim keeps it until a record has it."""
        return self._directory / EXITS / f"{container_id}.json"

    def _identifier(self) -> str:
        return (self._entropy.uid() + self._entropy.uid()).replace("-", "")

    def _address(self) -> str:
        """The next address after the last one, as the CNI plugin host-local gives them out."""
        used = {sandbox.ip for sandbox in self._sandboxes.values() if sandbox.ready}
        hosts = self.addresses.num_addresses - 3  # neither the network, the gateway nor the broadcast
        for step in range(1, hosts + 1):
            host = 2 + (self._last_host - 2 + step) % hosts
            if str(self.addresses[host]) not in used:
                self._last_host = host
                return str(self.addresses[host])
        raise ContainerRuntimeError(
            "failed to setup network for sandbox: plugin failed (add): failed to allocate for range 0: "
            f"no IP addresses available in range set: {self.addresses[1]}-{self.addresses[-2]}"
        )


STOP_SIGNAL = "kubeskew.io/stop-signal"  # in the record of a container
_PLAIN_SECURITY = ContainerConfig("", "").security


def cgroup_name(directory: Path) -> str:
    """The name of the cgroups of a node, by its directory."""
    return f"kubeskew-{hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:16]}"


class AddressInUseError(ContainerRuntimeError):
    """Another pod of the cluster has the address."""


def _of_network(sysctls: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in sysctls.items() if name.startswith(("net.", "net/"))}


async def _set_up(add: Callable[..., PodNamespace], *arguments: Any) -> PodNamespace:
    """Raises ContainerRuntimeError."""
    try:
        return await asyncio.to_thread(add, *arguments)
    except OSError as error:
        kind = AddressInUseError if error.errno == errno.EADDRINUSE else ContainerRuntimeError
        raise kind(f"failed to setup network for sandbox: {error}") from error

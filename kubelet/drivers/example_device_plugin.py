"""The example device plugin: made-up devices of one resource per node, served as `v1beta1` has it.

Its devices are `gpu-0 …` for the resource `example.com/gpu`. A container that is given some finds

    EXAMPLE_COM_GPU=gpu-0,gpu-1          in its environment
    /dev/gpu-0, /dev/gpu-1               devices
    /run/example.com/gpu/gpu-0, …        files, as upstream's sample plugin mounts one per device

The kubelet removes all sockets when it starts: the plugin then makes new ones, and registers again.

Its file is YAML or JSON, read again on SIGHUP; switches are those of drivers, as far as they make sense here
(`refusePrepare` refuses to allocate):

    revision: 3                    # optional: reported once it is in effect
    nodes:
    - name: node-1
      devicePluginsDir: /var/lib/kubelet/device-plugins
      devices: 2
      deviceName: gpu              # optional: devices are gpu-0 …; by default the resource's last part
      switches: {health: {gpu-0: Unhealthy}}
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.process.component import ComponentContext
from kubeskew.kubelet.drivers.reload import follow
from kubeskew.kubelet.drivers.settings import DriverFileError, read_nodes
from kubeskew.kubelet.drivers.switches import Switches, parse
from kubeskew.kubelet.protocols import device_plugin, grpc_calls
from kubeskew.kubelet.protocols.device_plugin import (
    HEALTHY,
    UNHEALTHY,
    AllocateRequest,
    AllocateResponse,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    PreStartContainerResponse,
    RegisterRequest,
)
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.messages.device_plugin_v1beta1_pb2 import ContainerAllocateResponse

log = logging.getLogger(__name__)

_KUBELET = "kubelet.sock"
_LOOK_SECONDS, _CALM_LOOK_SECONDS = 0.1, 0.25  # between looks at the kubelet's socket; while registered
_REGISTER_SECONDS = 15.0  # the kubelet takes up to ten to notice that it cannot reach the plugin
_LONGEST_NAME = 32

Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PluginNode:
    """The plugin on one node; `directory` is the kubelet's of device plugins."""

    name: str
    directory: Path
    devices: int
    device_name: str = ""
    switches: Switches = field(default_factory=Switches)


@dataclass(frozen=True, slots=True)
class PluginFile:
    nodes: tuple[PluginNode, ...]
    revision: int = 0


def load(path: Path) -> PluginFile:
    """Raises DriverFileError."""
    return PluginFile(*read_nodes(path, "device plugin file", parse_node))


def parse_node(entry: Any, where: str) -> PluginNode:
    """Raises DriverFileError."""
    if not isinstance(entry, dict) or not entry.get("name") or not entry.get("devicePluginsDir"):
        raise DriverFileError(f"{where}: an entry of `nodes` needs name and devicePluginsDir")
    try:
        given = entry.get("devices")
        devices = 1 if given is None else int(given)
        switches = parse(entry.get("switches") or {})
    except (ValueError, TypeError, AttributeError) as error:
        raise DriverFileError(f"{where}: node {entry['name']}: {error}") from error
    if devices < 0:
        raise DriverFileError(f"{where}: node {entry['name']}: devices: expected a number, found {devices}")
    return PluginNode(
        name=str(entry["name"]),
        directory=Path(entry["devicePluginsDir"]),
        devices=devices,
        device_name=str(entry.get("deviceName") or ""),
        switches=switches,
    )


class ExampleDevicePlugin:
    """The plugin on one node; `run` until cancelled."""

    def __init__(self, resource: str, node: PluginNode, clock: Clock) -> None:
        self.resource = resource
        self.node = node
        self._clock = clock
        self._name = _file_name(resource)
        self._server: Any = None
        self._kubelet: Stamp | None = None  # the socket at which it is registered
        self._watchers = 0
        self._changed = asyncio.Event()

    @property
    def shown(self) -> bool:
        return not self.node.switches.vanish

    @property
    def registered(self) -> bool:
        """True while the kubelet follows the plugin's list of devices."""
        return self._watchers > 0

    def apply(self, node: PluginNode) -> None:
        self.node = node
        self._changed.set()
        self._changed = asyncio.Event()

    def devices(self) -> dict[str, str]:
        switches = self.node.switches
        count = self.node.devices if switches.devices is None else switches.devices
        names = [f"{self.node.device_name or self.resource.rpartition('/')[2]}-{n}" for n in range(count)]
        switched = {name: health.status for name, health in switches.health.items()}
        return {name: HEALTHY if switched.get(name, HEALTHY) == HEALTHY else UNHEALTHY for name in names}

    async def run(self) -> None:
        try:
            while True:
                try:
                    await self._follow()
                except (OSError, RpcError) as error:
                    log.warning("node %s: %s: %s", self.node.name, self.resource, error)
                await self._clock.sleep(_CALM_LOOK_SECONDS if self.registered else _LOOK_SECONDS)
        finally:
            await self._hide()

    # -- life

    async def _follow(self) -> None:
        """Keeps the plugin registered with the present kubelet, unless a switch hides it."""
        if not self.shown:
            await self._hide()
            return
        kubelet = _stamp(self.node.directory / _KUBELET)
        if kubelet is None or (kubelet == self._kubelet and _stamp(self._socket) is not None):
            return
        await self._hide()
        await self._show()
        await self._register()
        self._kubelet = kubelet

    async def _show(self) -> None:
        self._server = grpc_calls.new_server()
        device_plugin.GET_OPTIONS.serve(self._server, self._options)
        device_plugin.LIST_AND_WATCH.serve(self._server, self._list_and_watch)
        device_plugin.GET_PREFERRED_ALLOCATION.serve(self._server, self._prefer)
        device_plugin.ALLOCATE.serve(self._server, self._allocate)
        device_plugin.PRE_START_CONTAINER.serve(self._server, self._pre_start)
        self._socket.unlink(missing_ok=True)
        self._server.listen(self._socket)
        await self._server.start()

    async def _hide(self) -> None:
        server, self._server, self._kubelet = self._server, None, None
        if server is not None:
            await server.stop(None)
            self._socket.unlink(missing_ok=True)

    async def _register(self) -> None:
        request = RegisterRequest(
            version=device_plugin.VERSION, endpoint=self._socket.name, resource_name=self.resource
        )
        channel = grpc_calls.channel_to(self.node.directory / _KUBELET)
        try:
            await device_plugin.REGISTER.call(channel, request, timeout=_REGISTER_SECONDS)
        finally:
            await channel.close()
        log.info("node %s: registered %s", self.node.name, self.resource)

    @property
    def _socket(self) -> Path:
        return self.node.directory / f"{self._name}.sock"

    # -- the service

    async def _options(self, _: Empty) -> DevicePluginOptions:
        return DevicePluginOptions()

    async def _list_and_watch(self, _: Empty) -> AsyncIterator[ListAndWatchResponse]:
        self._watchers += 1
        try:
            sent = None
            while True:
                changed, now = self._changed, self.devices()
                if now != sent:
                    response = ListAndWatchResponse()
                    for name, health in now.items():
                        response.devices.add(ID=name, health=health)
                    sent = now
                    yield response
                await changed.wait()
        finally:
            self._watchers -= 1

    async def _prefer(self, _: PreferredAllocationRequest) -> PreferredAllocationResponse:
        return PreferredAllocationResponse()

    async def _pre_start(self, _: PreStartContainerRequest) -> PreStartContainerResponse:
        return PreStartContainerResponse()

    async def _allocate(self, request: AllocateRequest) -> AllocateResponse:
        await self._held_up()
        refusal = self.node.switches.refuse_prepare or self.node.switches.fail_calls
        if refusal:
            raise RpcError(grpc.StatusCode.UNKNOWN, refusal)
        known = self.devices()
        response = AllocateResponse()
        for wanted in request.container_requests:
            for device in wanted.devices_ids:
                if device not in known:
                    text = f"invalid allocation request with non-existing device {device}"
                    raise RpcError(grpc.StatusCode.UNKNOWN, text)
                if known[device] != HEALTHY:
                    text = f"invalid allocation request with unhealthy device: {device}"
                    raise RpcError(grpc.StatusCode.UNKNOWN, text)
            self._fill(response.container_responses.add(), list(wanted.devices_ids))
        return response

    async def _held_up(self) -> None:
        await self._clock.sleep(self.node.switches.delay)
        while self.node.switches.hang:
            await self._changed.wait()

    def _fill(self, response: ContainerAllocateResponse, devices: list[str]) -> None:
        response.envs[variable_of(self.resource)] = ",".join(devices)
        for device in devices:
            response.devices.add(
                container_path=f"/dev/{device}", host_path=f"/dev/{device}", permissions="rw"
            )
            file = self.node.directory / self._name / device
            file.parent.mkdir(exist_ok=True, mode=0o700)
            file.write_text(f"{device}\n")
            response.mounts.add(
                container_path=f"/run/{self.resource}/{device}", host_path=str(file), read_only=True
            )


def variable_of(resource: str) -> str:
    """`example.com/gpu` becomes `EXAMPLE_COM_GPU`."""
    return re.sub(r"[^A-Z0-9_]", "_", resource.upper())


def _file_name(resource: str) -> str:
    """Paths of sockets have to be short, so a long name becomes a hash."""
    name = re.sub(r"[^A-Za-z0-9.-]", "_", resource)
    return name if len(name) <= _LONGEST_NAME else hashlib.sha256(resource.encode()).hexdigest()[:12]


def _stamp(path: Path) -> Stamp | None:
    """Inode and time distinguish a socket from a new one at its path; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


class PluginHost:
    """The plugin's process. `read` returns the nodes; it is called again on SIGHUP."""

    def __init__(self, ctx: ComponentContext, resource: str, read: Callable[[], PluginFile]) -> None:
        self._ctx = ctx
        self._resource = resource
        self._read = read
        self._plugins: dict[str, tuple[ExampleDevicePlugin, asyncio.Task[None]]] = {}
        self._revision = 0
        self._reload = asyncio.Event()

    async def run(self) -> None:
        health = self._ctx.health
        health.add_check("file", lambda: True)  # nodes may be down; the page /driver shows each
        health.add_page("/driver", self.state)
        self._ctx.reloads.append(self._reload.set)
        await self.apply(self._read())
        following = follow(self._reload, lambda: self.apply(self._read()))
        reloading = asyncio.create_task(following, name="device plugin file")
        try:
            await self._ctx.stop.wait()
        finally:
            reloading.cancel()
            await asyncio.gather(reloading, return_exceptions=True)
            await self.apply(PluginFile(()))

    async def apply(self, file: PluginFile) -> None:
        """Serves these nodes, and no others, with these devices and switches."""
        wanted = {node.name: node for node in file.nodes}
        leaving = [name for name in self._plugins if name not in wanted]
        for name, node in wanted.items():
            if name in self._plugins and self._plugins[name][0].node.directory == node.directory:
                self._plugins[name][0].apply(node)
                continue
            if name in self._plugins:
                await self._leave(name)
            plugin = ExampleDevicePlugin(self._resource, node, self._ctx.environment.clock)
            self._plugins[name] = plugin, asyncio.create_task(plugin.run(), name=f"plugin of {name}")
        await asyncio.gather(*map(self._leave, leaving))
        self._revision = file.revision

    async def _leave(self, name: str) -> None:
        _, task = self._plugins.pop(name)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def state(self) -> dict[str, Any]:
        """The page /driver shows `{resource, revision, nodes: {name: {registered, shown, devices}}}`."""
        return {
            "resource": self._resource,
            "revision": self._revision,
            "nodes": {
                name: {"registered": plugin.registered, "shown": plugin.shown, "devices": plugin.devices()}
                for name, (plugin, _) in self._plugins.items()
            },
        }

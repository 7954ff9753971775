"""Serves the kubelet's socket for device plugins, and keeps its connections to those that registered.

pkg/kubelet/cm/devicemanager/plugin/v1beta1: a plugin calls Register, or shows itself in the registry of all
plugins; the kubelet connects to it, and watches its list of devices until the stream ends. As upstream there
is one connection per resource: up to 1.36, the end of an older plugin also ends the newer one.
"""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import grpc

from kubeskew.apimachinery.pod_resources import is_extended_resource
from kubeskew.kubelet.device_managers import DeviceError
from kubeskew.kubelet.metrics import KubeletMetrics
from kubeskew.kubelet.plugins.plugin_handler import PluginRefusedError
from kubeskew.kubelet.protocols import device_plugin, grpc_calls
from kubeskew.kubelet.protocols.device_plugin import VERSION, Empty, ListAndWatchResponse, RegisterRequest
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.message_sockets import Channel, Server

log = logging.getLogger(__name__)

SOCKET = "kubelet.sock"
_DIAL_SECONDS = 10.0


class PluginUser(Protocol):
    """Handles plugins that register and leave; the device plugin manager implements it."""

    def clean(self, directory: Path) -> None:
        """Removes the sockets that are left in the directory."""
        ...

    async def connected(self, resource: str, channel: Channel) -> None:
        """Raises DeviceError if the plugin cannot be used."""
        ...

    def disconnected(self, resource: str) -> None: ...

    def listed(self, resource: str, response: ListAndWatchResponse) -> None: ...


class _Connection(NamedTuple):
    channel: Channel
    socket: Path


class DevicePluginServer:
    """Serves Registration in `directory`, and implements `PluginHandler` for the registry's plugins."""

    def __init__(
        self, directory: Path, user: PluginUser, metrics: KubeletMetrics, *, keeps_newer: bool
    ) -> None:
        """`keeps_newer`: the end of the older of two plugins for a resource leaves the newer one alone."""
        self._directory = directory
        self._keeps_newer = keeps_newer
        self._user = user
        self._metrics = metrics
        self._server: Server | None = None
        self._plugins: dict[str, _Connection] = {}  # resource → the newest plugin's
        self._watching: dict[asyncio.Task[None], None] = {}

    async def start(self) -> None:
        """Starts to listen; raises OSError if the socket cannot be made."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o750)
        self._user.clean(self._directory)
        self._server = grpc_calls.new_server()
        device_plugin.REGISTER.serve(self._server, self._register)
        self._server.listen(self._directory / SOCKET)
        await self._server.start()

    async def stop(self) -> None:
        """Ends everything at once; allocations stay as they are."""
        if self._server is not None:
            await self._server.stop(None)
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        connections, self._plugins = self._plugins, {}
        for connection in connections.values():
            await connection.channel.close()

    async def _register(self, request: RegisterRequest) -> Empty:
        resource = request.resource_name
        self._metrics.device_plugin_registrations.labels(resource).inc()
        if request.version != VERSION:
            raise _refusal(
                f'requested API version "{request.version}" is not supported by kubelet. '
                f'Supported version is ["{VERSION}"]'
            )
        if not is_extended_resource(resource):
            raise _refusal(f'the ResourceName "{resource}" is invalid')
        try:
            await self._connect(resource, self._directory / request.endpoint)
        except DeviceError as error:
            raise _refusal(str(error)) from error
        return Empty()

    # -- PluginHandler

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        if VERSION not in versions:
            known = " ".join(versions)
            raise PluginRefusedError(
                f"manager version, {VERSION}, is not among plugin supported versions [{known}]"
            )
        if not is_extended_resource(name):
            raise PluginRefusedError(
                f'invalid name of device plugin socket: the ResourceName "{name}" is invalid'
            )

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        try:
            await self._connect(name, Path(endpoint))
        except DeviceError as error:
            raise PluginRefusedError(str(error)) from error

    async def deregister(self, name: str, endpoint: str) -> None:
        known = self._plugins.get(name)
        if known is not None and (known.socket == Path(endpoint) or not self._keeps_newer):
            await self._disconnect(name)

    # -- connections

    async def _connect(self, resource: str, socket: Path) -> None:
        """Raises DeviceError."""
        channel = grpc_calls.channel_to(socket)
        self._plugins[resource] = _Connection(channel, socket)
        try:
            await _dial(channel)
            await self._user.connected(resource, channel)
        except DeviceError as error:
            log.warning("device plugin of %s at %s: %s", resource, socket, error)
            self._plugins.pop(resource, None)
            await channel.close()
            raise
        log.info("device plugin of %s connected at %s", resource, socket)
        self._spawn(self._watch(resource, channel))

    async def _watch(self, resource: str, channel: Channel) -> None:
        """Follows the plugin's list until its stream ends, then ends the resource's connection."""
        try:
            async for response in device_plugin.LIST_AND_WATCH.call(channel, Empty()):
                self._user.listed(resource, response)
        except RpcError as error:
            log.warning("ListAndWatch ended unexpectedly for device plugin of %s: %s", resource, error)
        finally:
            await channel.close()
        known = self._plugins.get(resource)
        if known is not None and (known.channel is channel or not self._keeps_newer):
            await self._disconnect(resource)

    async def _disconnect(self, resource: str) -> None:
        connection = self._plugins.pop(resource)
        self._user.disconnected(resource)
        await connection.channel.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="device plugin")
        self._watching[task] = None
        task.add_done_callback(self._watching.pop)


async def _dial(channel: Channel) -> None:
    try:
        async with asyncio.timeout(_DIAL_SECONDS):
            await channel.channel_ready()
    except TimeoutError as error:
        raise DeviceError("failed to dial device plugin: context deadline exceeded") from error


def _refusal(text: str) -> RpcError:
    """Go's errors without a gRPC status reach the plugin as UNKNOWN."""
    return RpcError(grpc.StatusCode.UNKNOWN, text)

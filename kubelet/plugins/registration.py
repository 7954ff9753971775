"""Registers one plugin, from the first call on its socket to reporting the outcome to it.

pkg/kubelet/pluginmanager/operationexecutor/operation_generator.go.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from kubeskew.kubelet.plugins.plugin_handler import PluginHandler, PluginRefusedError
from kubeskew.kubelet.protocols import registration
from kubeskew.kubelet.protocols.grpc_calls import RpcError, channel_to
from kubeskew.kubelet.protocols.message_sockets import Channel

_DIAL_SECONDS = 10.0
_INFO_SECONDS = 1.0
_NOTIFY_SECONDS = 5.0


class RegistrationError(Exception):
    """The plugin is not registered, or did not get the news that it is."""

    def __init__(self, text: str) -> None:
        super().__init__(f"RegisterPlugin error -- {text}")


class Registered(NamedTuple):
    name: str
    endpoint: str
    handler: PluginHandler


async def register(
    socket: str, handlers: Mapping[str, PluginHandler], added: Callable[[Registered], None]
) -> None:
    """Registers the plugin behind a socket with the handler of its type.

    `added` is called before the handler, so that a socket that vanishes meanwhile is deregistered. Raises
    RegistrationError.
    """
    channel = channel_to(socket)
    try:
        await _dial(socket, channel)
        try:
            info = await registration.GET_INFO.call(
                channel, registration.InfoRequest(), timeout=_INFO_SECONDS
            )
        except RpcError as error:
            text = f"failed to get plugin info using RPC GetInfo at socket {socket}, err: {error}"
            raise RegistrationError(text) from error
        await _register(socket, channel, info, handlers, added)
    finally:
        await channel.close()


async def _dial(socket: str, channel: Channel) -> None:
    try:
        async with asyncio.timeout(_DIAL_SECONDS):
            await channel.channel_ready()
    except TimeoutError as error:
        text = f"failed to dial socket {socket}, err: context deadline exceeded"
        raise RegistrationError(f"dial failed at socket {socket}, err: {text}") from error


async def _register(
    socket: str,
    channel: Channel,
    info: registration.PluginInfo,
    handlers: Mapping[str, PluginHandler],
    added: Callable[[Registered], None],
) -> None:
    handler = handlers.get(info.type)
    if handler is None:
        error = RegistrationError(f"no handler registered for plugin type: {info.type} at socket {socket}")
        await _notify(socket, channel, error)
        raise error
    endpoint, versions = located(info.endpoint, socket) or socket, list(info.supported_versions)
    try:
        handler.validate(info.name, endpoint, versions)
    except PluginRefusedError as refused:
        error = RegistrationError(f"plugin validation failed with err: {refused}")
        await _notify(socket, channel, error)
        raise error from refused
    added(Registered(info.name, endpoint, handler))
    try:
        await handler.register(info.name, endpoint, versions)
    except PluginRefusedError as refused:
        error = RegistrationError(f"plugin registration failed with err: {refused}")
        await _notify(socket, channel, error)
        raise error from refused
    await _notify(socket, channel, None)


async def _notify(socket: str, channel: Channel, refusal: RegistrationError | None) -> None:
    status = registration.RegistrationStatus(
        plugin_registered=refusal is None, error="" if refusal is None else str(refusal)
    )
    try:
        await registration.NOTIFY.call(channel, status, timeout=_NOTIFY_SECONDS)
    except RpcError as error:
        what = "send error" if refusal is not None else "send registration status"
        reason = error if refusal is None else f"{refusal}: {error}"
        raise RegistrationError(f"failed to {what} at socket {socket}, err: {reason}") from error


def located(endpoint: str, socket: str) -> str:
    """A plugin in a container names its socket by upstream's path, which leads to the node's own directory:
    that of plugins is next to the one of `socket`, by which it registers."""
    if not endpoint.startswith(_PLUGINS) or Path(endpoint).exists():
        return endpoint
    found = Path(socket).parent.with_name("plugins") / endpoint.removeprefix(_PLUGINS)
    return str(found) if found.exists() else endpoint


_PLUGINS = "/var/lib/kubelet/plugins/"

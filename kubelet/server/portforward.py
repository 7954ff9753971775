"""`/portForward`: connections to ports of pods, over SPDY (also in a WebSocket) and WebSocket v4.

Source: k8s.io/kubelet/pkg/cri/streaming/portforward (httpstream.go, websocket.go), 1.36.
"""

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.streaming import Pipe
from kubeskew.apimachinery.streaming.websocket import WebSocket
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.runtime_service import Connection, PortForwardError, RuntimeService
from kubeskew.kubelet.protocols import spdy
from kubeskew.kubelet.server.remotecommand import (
    WebSocketChannels,
    chosen_protocol,
    hand_over,
    is_websocket,
    offered_protocols,
    websocket_headers,
)
from kubeskew.kubelet.server.stats import NodeView

Read = Callable[[], Awaitable[bytes]]
Write = Callable[[bytes], Awaitable[None]]

_LAST_SECONDS = 1.0  # that one direction has when the other has ended, as containerd gives it
PROTOCOL = "portforward.k8s.io"
TUNNEL_PROTOCOL = "SPDY/3.1+portforward.k8s.io"
WEBSOCKET_PROTOCOLS = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io")


@dataclass(frozen=True, slots=True)
class PodPorts:
    """The ports of one pod."""

    runtime: RuntimeService
    clock: Clock
    pod_uid: str

    async def connect(self, port: int) -> Connection:
        """Raises PortForwardError, whose text is for the client."""
        sandbox = self.runtime.sandbox(self.pod_uid)
        if sandbox is None:
            raise PortForwardError(_refused(self, port))
        try:
            return await self.runtime.port_forward(sandbox, port)
        except PortForwardError:
            raise
        except OSError:
            raise PortForwardError(_refused(self, port)) from None


async def connected(view: NodeView, pod: Object, port: int) -> Connection | None:
    """Connects to a port at a pod's address; None if nobody answers there."""
    sandbox = view.runtime.sandbox(pod_spec.uid_of(pod))
    if sandbox is None:
        return None
    try:
        return await view.runtime.dial(sandbox, port)
    except OSError:
        return None


def ports_of(view: NodeView, pod: Object) -> PodPorts:
    return PodPorts(view.runtime, view.clock, pod_spec.uid_of(pod))


async def forward(ports: PodPorts, connection: Connection, read: Read, write: Write) -> None:
    """Copies bytes both ways; when one way ends, the other has a moment to end, too. Raises PortForwardError
    if it turned out that nobody answers at the port."""

    async def to_pod() -> None:
        while data := await read():
            await connection.write(data)

    async def from_pod() -> None:
        while data := await connection.read():
            await write(data)

    ways = [asyncio.ensure_future(to_pod()), asyncio.ensure_future(from_pod())]
    resting = None
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        resting = asyncio.ensure_future(ports.clock.sleep(_LAST_SECONDS))
        both = asyncio.ensure_future(asyncio.wait(ways))
        await asyncio.wait({resting, both}, return_when=asyncio.FIRST_COMPLETED)
        both.cancel()
    finally:
        for task in [*ways, *([resting] if resting is not None else [])]:
            task.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        with contextlib.suppress(OSError):
            await connection.close()
    failure = None if ways[1].cancelled() else ways[1].exception()
    if isinstance(failure, PortForwardError):
        raise failure


class WebSocketPipe:
    """The bytes of a SPDY connection inside binary messages."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        while True:
            message = await self._socket.receive()
            if message is None:
                return b""
            if message.data:
                return message.data

    async def write(self, data: bytes) -> None:
        await self._socket.send(data)


def _refused(ports: PodPorts, port: int) -> str:
    uid = ports.pod_uid.replace("-", "")
    return (
        f"error forwarding port {port} to pod {uid}, uid : failed to execute portforward in network "
        f'namespace "/var/run/netns/cni-{uid[:8]}": failed to connect to localhost:{port} '
        f'inside namespace "{uid}", '
        f"IPv4: dial tcp4 127.0.0.1:{port}: connect: connection refused IPv6 dial tcp6: address localhost: "
        "no suitable address found "
    )


async def serve_ports(
    request: web.BaseRequest, ports: PodPorts, wanted: Callable[[], list[int]]
) -> web.StreamResponse:
    """Answers a request to forward ports; `wanted` are those that the request itself names, which clients of
    WebSocket v4 do alone. Raises ServerError.
    """
    if not is_websocket(request):
        headers = [("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", PROTOCOL)]
        return await hand_over(request, headers, lambda pipe: forward_spdy(ports, pipe))
    offered = offered_protocols(request, "Sec-WebSocket-Protocol")
    if TUNNEL_PROTOCOL in offered:

        async def tunnel(pipe: Pipe) -> None:
            await forward_spdy(ports, WebSocketPipe(WebSocket(pipe)))

        return await hand_over(request, websocket_headers(request, TUNNEL_PROTOCOL), tunnel)
    protocol = chosen_protocol(offered, WEBSOCKET_PROTOCOLS)
    numbers = wanted()

    async def forward_channels(pipe: Pipe) -> None:
        await forward_websocket(ports, numbers, WebSocket(pipe), protocol)

    return await hand_over(request, websocket_headers(request, protocol), forward_channels)


async def forward_spdy(ports: PodPorts, pipe: Pipe) -> None:
    """Forwards pairs of an error and a data stream, each pair one connection to a port."""
    connection = spdy.Connection(pipe)
    reading = asyncio.create_task(connection.run(), name="port-forward")
    serving: dict[asyncio.Task[None], None] = {}
    waiting: dict[str, dict[str, spdy.Stream]] = {}
    try:
        while (stream := await connection.accept()) is not None:
            request = stream.headers.get("requestid") or str(stream.number | 3)
            pair = waiting.setdefault(request, {})
            pair[stream.headers.get("streamtype", "")] = stream
            if {"data", "error"} <= pair.keys():
                del waiting[request]
                task = asyncio.create_task(_serve_pair(ports, pair))
                serving[task] = None
                task.add_done_callback(serving.pop)
    finally:
        for task in [reading, *serving]:
            task.cancel()
        await asyncio.gather(reading, *serving, return_exceptions=True)


async def _serve_pair(ports: PodPorts, pair: dict[str, spdy.Stream]) -> None:
    data, error = pair["data"], pair["error"]
    text = data.headers.get("port", "")
    with contextlib.suppress(ConnectionError):  # the client went: its streams end, too
        try:
            if not text.isdecimal():
                raise PortForwardError(f'"{text}" is no port')
            await forward(ports, await ports.connect(int(text)), data.read, data.write)
        except PortForwardError as failure:
            await error.write(str(failure).encode())
    await data.close()
    await error.close()


async def forward_websocket(ports: PodPorts, wanted: list[int], socket: WebSocket, protocol: str) -> None:
    """Forwards two channels per port, data and error; both begin with the port's number.

    The connection ends with the client, or with the last of the ports' connections.
    """
    channels = _PortChannels(socket, protocol, len(wanted))
    for number, port in enumerate(wanted):
        for channel in (2 * number, 2 * number + 1):
            await channels.write(channel, struct.pack("<H", port))
    serving = [
        asyncio.create_task(_serve_channel(ports, port, channels, 2 * number))
        for number, port in enumerate(wanted)
    ]
    reading = asyncio.create_task(channels.run())
    served = asyncio.create_task(asyncio.wait(serving))
    try:
        await asyncio.wait({reading, served}, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():  # no listener is left
            await socket.close()
    finally:
        for task in [reading, served, *serving]:
            task.cancel()
        await asyncio.gather(reading, served, *serving, return_exceptions=True)


async def _serve_channel(ports: PodPorts, port: int, channels: "_PortChannels", channel: int) -> None:
    async def read() -> bytes:
        return await channels.queue(channel).get()

    async def write(data: bytes) -> None:
        await channels.write(channel, data)

    try:
        await forward(ports, await ports.connect(port), read, write)
    except PortForwardError as failure:
        await channels.write(channel + 1, str(failure).encode())


class _PortChannels(WebSocketChannels):
    """The channels of `count` ports, of which the data channels are read."""

    def __init__(self, socket: WebSocket, protocol: str, count: int) -> None:
        super().__init__(socket, protocol, stdin=False)
        self._queues: dict[int, asyncio.Queue[bytes]] = {
            2 * number: asyncio.Queue() for number in range(count)
        }

    def queue(self, channel: int) -> asyncio.Queue[bytes]:
        return self._queues[channel]

    async def run(self) -> None:
        try:
            while (message := await self._socket.receive()) is not None:
                channel, data = self._opened(message.data)
                if data and channel in self._queues:
                    self._queues[channel].put_nowait(data)
        except ConnectionError:
            pass
        finally:
            for queue in self._queues.values():
                queue.put_nowait(b"")

"""`/portForward`: connections to ports of fake pods, over SPDY (also in a WebSocket) and WebSocket v4.

A port is served by the program that listens there, or by a small HTTP server in its place, because what runs
in most images is not known. A port of such a pod answers if a running container declares it, or if none is
declared: it reports in JSON what was asked, and echoes other protocols.

Source: k8s.io/kubelet/pkg/cri/streaming/portforward (httpstream.go, websocket.go), 1.36.
"""

import asyncio
import re
import struct
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import orjson

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.streaming import Pipe
from kubeskew.apimachinery.streaming.websocket import WebSocket
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers.network import HTTPAnswer, HTTPRequest, header_lines
from kubeskew.kubelet.server import spdy
from kubeskew.kubelet.server.remotecommand import WebSocketChannels
from kubeskew.kubelet.server.stats import NodeView

Read = Callable[[], Awaitable[bytes]]
Write = Callable[[bytes], Awaitable[None]]

_HTTP = re.compile(rb"[A-Z]+ \S* HTTP/1\.[01]\r?\n")
_HTTP_BEGINNING = re.compile(rb"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT|TRACE) ")
_LARGEST_HEAD = 1 << 16
PROTOCOL = "portforward.k8s.io"
TUNNEL_PROTOCOL = "SPDY/3.1+portforward.k8s.io"
WEBSOCKET_PROTOCOLS = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io")


class PodPort(NamedTuple):
    """A port of a running pod that answers."""

    pod: Object
    answer: Callable[[HTTPRequest], HTTPAnswer]
    echoes: bool  # what is no HTTP; else it is a bad request


def port_of(view: NodeView, pod: Object, port: int) -> PodPort | None:
    """None means that nobody answers at the port."""
    sandbox = view.runtime.sandbox(pod_spec.uid_of(pod))
    if sandbox is None or not sandbox.running(view.clock.now()):
        return None
    listens = view.runtime.listens(sandbox, port)
    if listens:
        return PodPort(pod, lambda request: view.runtime.ask(sandbox, port, request) or _GONE, echoes=False)
    if listens is False or not _is_declared(pod, port):
        return None
    return PodPort(pod, lambda request: _fake_answer(pod, request), echoes=True)


def _is_declared(pod: Object, port: int) -> bool:
    """A port counts as declared if a container has it, or none has any."""
    declared = {
        int(declared["containerPort"])
        for spec in pod_spec.containers(pod)
        for declared in spec.get("ports") or []
    }
    return not declared or port in declared


_GONE = HTTPAnswer(502, "Bad Gateway", {"Server": "kubeskew"}, b"")  # it ended since it was looked for


def _fake_answer(pod: Object, request: HTTPRequest) -> HTTPAnswer:
    """Answers for a fake container: its name and the request."""
    answer = {
        "pod": pod_spec.name_of(pod),
        "namespace": pod_spec.namespace_of(pod),
        "node": pod["spec"].get("nodeName", ""),
        "method": request.method,
        "path": request.target,
    }
    if request.body:
        answer["body"] = request.body.decode("utf-8", "replace")
    headers = {"Content-Type": "application/json", "Server": "kubeskew"}
    return HTTPAnswer(200, "OK", headers, orjson.dumps(answer) + b"\n")


class _Asked(NamedTuple):
    """An HTTP request; `last` if the connection ends with its answer."""

    request: HTTPRequest
    last: bool


async def serve_connection(port: PodPort, read: Read, write: Write) -> None:
    """Serves one connection until the client ends it, or asks for its end."""
    held = b""
    while True:
        data = await read()
        if not data:
            return
        held += data
        if not _HTTP_BEGINNING.match(held):
            if not port.echoes:
                line = held.split(b"\n")[0].decode("latin-1").strip()
                await _answer(port, _Asked(HTTPRequest("", line, version=""), last=True), write)
                return
            await write(held)
            held = b""
            continue
        while (found := _request(held)) is not None:
            asked, held = found
            await _answer(port, asked, write)
            if asked.last:
                return
        if len(held) > _LARGEST_HEAD:
            return


async def _answer(port: PodPort, asked: _Asked, write: Write) -> None:
    answer = port.answer(asked.request)
    head = "".join(f"{line}\r\n" for line in header_lines(answer, last=asked.last))
    body = b"" if asked.request.method == "HEAD" else answer.body
    await write(f"{head}\r\n".encode("latin-1") + body)


def _request(data: bytes) -> tuple[_Asked, bytes] | None:
    """A request comes with the bytes after it; None until it is complete."""
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end or not _HTTP.match(data):
        return None
    length = re.search(rb"(?i)\r\ncontent-length:\s*(\d+)", head)
    size = int(length[1]) if length else 0
    if len(rest) < size:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, version = first.split(" ")[:3]
    headers = [line.partition(":")[::2] for line in lines]
    pairs = tuple((name.strip(), value.strip()) for name, value in headers)
    listed = [value for name, value in pairs if name.lower() == "connection"]
    options = {option.strip().lower() for option in ",".join(listed).split(",")}
    last = "close" in options or (version == "HTTP/1.0" and "keep-alive" not in options)
    return _Asked(HTTPRequest(method, target, pairs, rest[:size], version=version), last), rest[size:]


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


def _refused(pod: Object, port: int) -> str:
    uid = pod["metadata"]["uid"].replace("-", "")
    return (
        f"error forwarding port {port} to pod {uid}, uid : failed to execute portforward in network "
        f'namespace "/var/run/netns/cni-{uid[:8]}": failed to connect to localhost:{port} '
        f'inside namespace "{uid}", '
        f"IPv4: dial tcp4 127.0.0.1:{port}: connect: connection refused IPv6 dial tcp6: address localhost: "
        "no suitable address found "
    )


async def forward_spdy(view: NodeView, pod: Object, pipe: Pipe) -> None:
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
                task = asyncio.create_task(_serve_pair(view, pod, pair))
                serving[task] = None
                task.add_done_callback(serving.pop)
    finally:
        for task in [reading, *serving]:
            task.cancel()
        await asyncio.gather(reading, *serving, return_exceptions=True)


async def _serve_pair(view: NodeView, pod: Object, pair: dict[str, spdy.Stream]) -> None:
    data, error = pair["data"], pair["error"]
    text = data.headers.get("port", "")
    try:
        if not text.isdecimal():
            await error.write(f'"{text}" is no port'.encode())
        elif (found := port_of(view, pod, int(text))) is not None:
            await serve_connection(found, data.read, data.write)
        else:
            await error.write(_refused(pod, int(text)).encode())
    except ConnectionError:
        pass  # the client went: its streams end, too
    await data.close()
    await error.close()


async def forward_websocket(
    view: NodeView, pod: Object, ports: list[int], socket: WebSocket, protocol: str
) -> None:
    """Forwards two channels per port, data and error; both begin with the port's number.

    The connection ends with the client, or with the last of the ports' connections.
    """
    channels = _PortChannels(socket, protocol, len(ports))
    for number, port in enumerate(ports):
        for channel in (2 * number, 2 * number + 1):
            await channels.write(channel, struct.pack("<H", port))
    serving = [
        asyncio.create_task(_serve_channel(view, pod, port, channels, 2 * number))
        for number, port in enumerate(ports)
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


async def _serve_channel(
    view: NodeView, pod: Object, port: int, channels: "_PortChannels", channel: int
) -> None:
    async def read() -> bytes:
        return await channels.queue(channel).get()

    async def write(data: bytes) -> None:
        await channels.write(channel, data)

    found = port_of(view, pod, port)
    if found is not None:
        await serve_connection(found, read, write)
    else:
        await channels.write(channel + 1, _refused(pod, port).encode())


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

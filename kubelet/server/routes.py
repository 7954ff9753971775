"""Which path of the kubelet does what (pkg/kubelet/server/server.go, 1.36)."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any
from urllib.parse import unquote

import orjson
from aiohttp import web

from apimachinery.health import answer
from apimachinery.streaming import Pipe, spdy
from apimachinery.streaming.hijacking import hand_over
from apimachinery.streaming.websocket import PROTOCOL_ERROR, WebSocket, accept_key
from kubelet.insides import Inside
from kubelet.server import channels as wire
from kubelet.server import commands, port_forwarding, ports
from kubelet.server.channels import Channels, SpdyChannels, WebSocketChannels, accept_streams
from kubelet.server.commands import StreamOptions
from kubelet.server.logs import LogOptions, container_logs
from kubelet.server.stats import summary
from kubelet.server.view import NodeView, ServerError

Page = Callable[[web.BaseRequest, list[str]], Awaitable[web.StreamResponse]]
Session = Callable[[Channels], Coroutine[Any, Any, None]]


class Routes:
    """One node's pages. `health` serves what the process tells of itself."""

    def __init__(self, view: NodeView, health: Any) -> None:
        self._view = view
        self._health = health
        self._pages: dict[str, Page] = {
            "containerLogs": self._logs,
            "exec": self._exec,
            "attach": self._attach,
            "portForward": self._port_forward,
            "run": self._run,
            "pods": self._pods,
            "runningpods": self._pods,
            "configz": self._configz,
            "stats": self._stats,
            "containerPort": self._port,
        }

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer to a request that may be made."""
        path = unquote(request.rel_url.raw_path)
        parts = path.strip("/").split("/")
        page = self._pages.get(parts[0])
        if page is None:
            return answer(self._health, path)
        try:
            return await page(request, parts[1:])
        except ServerError as error:
            return web.Response(status=error.status, text=error.text)

    # -- logs

    async def _logs(self, request: web.BaseRequest, parts: list[str]) -> web.StreamResponse:
        _need(parts, 3)
        options = LogOptions.of(request.rel_url.query, self._view.clock.now())
        pieces = await container_logs(self._view, parts[0], parts[1], parts[2], options)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            async for piece in pieces:
                await response.write(piece)
            await response.write_eof()
        return response

    # -- commands

    async def _exec(self, request: web.BaseRequest, parts: list[str]) -> web.StreamResponse:
        inside = await self._inside(parts)
        options = _stream_options(request.rel_url.query)
        argv = request.rel_url.query.getall("command", [])
        return await self._session(
            request, options, lambda channels: commands.execute(inside, argv, options, channels)
        )

    async def _attach(self, request: web.BaseRequest, parts: list[str]) -> web.StreamResponse:
        inside = await self._inside(parts)
        options = _stream_options(request.rel_url.query)
        return await self._session(
            request, options, lambda channels: commands.attach(inside, options, channels)
        )

    async def _inside(self, parts: list[str]) -> Inside:
        if len(parts) == 4:  # with the pod's uid before the container
            parts = [parts[0], parts[1], parts[3]]
        _need(parts, 3)
        return await self._view.running(*parts)

    async def _run(self, request: web.BaseRequest, parts: list[str]) -> web.StreamResponse:
        """A command without streams; the answer is what it wrote."""
        inside = await self._inside(parts)
        collected = _Collected()
        argv = request.rel_url.query.get("cmd", "").split(" ")
        await commands.execute(inside, argv, StreamOptions(False, True, True, False), collected)
        return web.Response(body=bytes(collected.data), content_type="text/plain")

    async def _session(
        self, request: web.BaseRequest, options: StreamOptions, session: Session
    ) -> web.StreamResponse:
        if _is_websocket(request):
            protocol = _chosen(_offered(request, "Sec-WebSocket-Protocol"), wire.WEBSOCKET_PROTOCOLS)
            return await _over_websocket(request, options, session, protocol)
        if "spdy/3.1" not in request.headers.get("Upgrade", "").lower():
            raise ServerError(
                400, f"unable to upgrade: missing upgrade headers in request: {_shown(request)}"
            )
        protocol = _chosen(_offered(request, "X-Stream-Protocol-Version"), wire.SPDY_PROTOCOLS)
        return await _over_spdy(request, options, session, protocol or "channel.k8s.io")

    # -- ports

    async def _port_forward(self, request: web.BaseRequest, parts: list[str]) -> web.StreamResponse:
        _need(parts, 2)
        view = self._view
        pod = view.pod(parts[0], parts[1])
        if pod is None:
            raise ServerError(404, "pod does not exist")
        if not _is_websocket(request):
            headers = [("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", port_forwarding.PROTOCOL)]
            return await hand_over(
                request, headers, lambda pipe: port_forwarding.forward_spdy(view, pod, pipe)
            )
        offered = _offered(request, "Sec-WebSocket-Protocol")
        if port_forwarding.TUNNEL_PROTOCOL in offered:

            async def tunnel(pipe: Pipe) -> None:
                inner = port_forwarding.WebSocketPipe(WebSocket(pipe))
                await port_forwarding.forward_spdy(view, pod, inner)

            return await hand_over(
                request, websocket_headers(request, port_forwarding.TUNNEL_PROTOCOL), tunnel
            )
        protocol = _chosen(offered, port_forwarding.WEBSOCKET_PROTOCOLS)
        wanted = _ports(request.rel_url.query)

        async def forward(pipe: Pipe) -> None:
            socket = WebSocket(pipe)
            await port_forwarding.forward_websocket(view, pod, wanted, socket, protocol)

        return await hand_over(request, websocket_headers(request, protocol), forward)

    async def _port(self, request: web.BaseRequest, parts: list[str]) -> web.StreamResponse:
        """The API server's way to a fake pod's HTTP server: nothing routes the pods' addresses."""
        _need(parts[:3], 3)
        pod = self._view.pod(parts[0], parts[1])
        if pod is None or not parts[2].isdigit() or not ports.listens(self._view, pod, int(parts[2])):
            return web.Response(status=502, text="connection refused")
        target = "/" + request.raw_path.split("/", 5)[5] if len(parts) > 3 else "/"
        body = ports.respond(pod, request.method, target, await request.read())
        return web.Response(body=body, content_type="application/json", headers={"Server": "kubeskew"})

    # -- about the node

    async def _pods(self, _request: web.BaseRequest, _parts: list[str]) -> web.StreamResponse:
        listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self._view.pods()}
        return web.Response(body=orjson.dumps(listed), content_type="application/json")

    async def _configz(self, _request: web.BaseRequest, _parts: list[str]) -> web.StreamResponse:
        config = {
            "kind": "KubeletConfiguration",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "nodeStatusUpdateFrequency": "10s",
            "nodeStatusReportFrequency": "5m0s",
            "maxPods": 110,
            "containerLogMaxSize": "10Mi",
            "clusterDomain": "cluster.local",
            "clusterDNS": ["10.96.0.10"],
        }
        return web.Response(body=orjson.dumps({"kubeletconfig": config}), content_type="application/json")

    async def _stats(self, _request: web.BaseRequest, _parts: list[str]) -> web.StreamResponse:
        return web.Response(body=orjson.dumps(summary(self._view)), content_type="application/json")


class _Collected:
    """Channels that only gather."""

    def __init__(self) -> None:
        self.data = bytearray()

    async def read(self) -> bytes:
        return b""

    async def write(self, channel: int, data: bytes) -> None:
        self.data += data

    async def finish(self, status: dict[str, Any]) -> None:
        if status.get("reason") == "InternalError":
            raise ServerError(500, status["message"])


async def _over_websocket(
    request: web.BaseRequest, options: StreamOptions, session: Session, protocol: str
) -> web.StreamResponse:
    async def talk(pipe: Pipe) -> None:
        socket = WebSocket(pipe)
        channels = WebSocketChannels(socket, protocol, options.stdin)
        # Tells the client that the connection is there (createWebSocketStreams).
        first = wire.STDOUT if options.stdout else wire.STDERR if options.stderr else wire.ERROR
        await channels.write(first, b"")
        reading = asyncio.create_task(channels.run(), name="remote command input")
        await _until_gone(session(channels), reading)
        await socket.close(PROTOCOL_ERROR)

    return await hand_over(request, websocket_headers(request, protocol), talk)


async def _over_spdy(
    request: web.BaseRequest, options: StreamOptions, session: Session, protocol: str
) -> web.StreamResponse:
    resizes = options.tty and protocol.startswith(("v3.", "v4."))
    expected = 1 + options.stdin + options.stdout + options.stderr + resizes

    async def talk(pipe: Pipe) -> None:
        connection = spdy.Connection(pipe)
        reading = asyncio.create_task(connection.run(), name="remote command streams")
        try:
            async with asyncio.timeout(30):
                streams = await accept_streams(connection, expected)
            if streams is not None and wire.ERROR in streams:
                await _until_gone(session(SpdyChannels(streams, protocol)), reading)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    return await hand_over(request, [("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", protocol)], talk)


async def _until_gone(session: Coroutine[Any, Any, None], reading: asyncio.Task[None]) -> None:
    """Run the session, but no longer than there is a client."""
    running = asyncio.create_task(session, name="remote command")
    try:
        await asyncio.wait({running, reading}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            await running
    finally:
        for task in (running, reading):
            task.cancel()
        await asyncio.gather(running, reading, return_exceptions=True)


def _need(parts: list[str], count: int) -> None:
    if len(parts) != count or not all(parts):
        raise ServerError(404, "404 page not found")


def _stream_options(query: Mapping[str, str]) -> StreamOptions:
    flags = [query.get(name) in {"1", "true"} for name in ("input", "output", "error", "tty")]
    return StreamOptions.of(*flags)


def _ports(query: Any) -> list[int]:
    texts = [text for value in query.getall("port", []) for text in value.split(",")]
    try:
        found = [int(text) for text in texts]
    except ValueError:
        raise ServerError(400, f"unable to parse ports: {texts}") from None
    if not found:
        raise ServerError(400, 'query parameter "port" is required')
    return found


def _is_websocket(request: web.BaseRequest) -> bool:
    return "websocket" in request.headers.get("Upgrade", "").lower()


def _offered(request: web.BaseRequest, header: str) -> list[str]:
    values = request.headers.getall(header, [])
    return [name.strip() for value in values for name in value.split(",") if name.strip()]


def _chosen(offered: list[str], known: tuple[str, ...]) -> str:
    """The first that the client offers and the server knows; raises 403 if it offers others only."""
    found = next((name for name in offered if name in known), "")
    if offered and not found:
        names = " ".join(f'"{name}"' for name in offered)
        raise ServerError(403, f"unable to upgrade: unable to negotiate protocol: client supports [{names}]")
    return found


def _shown(request: web.BaseRequest) -> str:
    return " ".join(f"{name}:[{value}]" for name, value in request.headers.items())


def websocket_headers(request: web.BaseRequest, protocol: str) -> list[tuple[str, str]]:
    """Of the 101 that opens a WebSocket."""
    accepted = accept_key(request.headers.get("Sec-WebSocket-Key", ""))
    headers = [("Upgrade", "websocket"), ("Sec-WebSocket-Accept", accepted)]
    return [*headers, ("Sec-WebSocket-Protocol", protocol)] if protocol else headers

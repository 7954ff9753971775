"""The kubelet's HTTPS server: its routes, and the listener of a node.

A node listens on its own loopback address, for clients of the cluster's authority. All nodes of a process
share the TLS context and, if one is given, the port: each has its own address.

Source: pkg/kubelet/server/server.go, 1.36.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import orjson
from aiohttp import web
from multidict import CIMultiDict

from kubeskew.apimachinery.process.listeners import WebListener, answer
from kubeskew.apimachinery.security.tls import serving_context
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.containers import http_client
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.server import portforward, remotecommand
from kubeskew.kubelet.server.access import Access
from kubeskew.kubelet.server.configz import kubelet_configuration
from kubeskew.kubelet.server.logs import LogOptions, container_logs
from kubeskew.kubelet.server.metrics import CONTENT_TYPE, cadvisor_metrics, probe_metrics, resource_metrics
from kubeskew.kubelet.server.remotecommand import (
    StreamOptions,
)
from kubeskew.kubelet.server.stats import NodeView, ServerError, pods_in_use, summary

_METRICS = {"cadvisor": cadvisor_metrics, "resource": resource_metrics, "probes": probe_metrics}
# Headers that hold for one connection.
_HOP = frozenset({"host", "connection", "content-length", "transfer-encoding", "keep-alive", "te", "upgrade"})
# These name no media types, so a client has to take all (go-restful, jsr311.go).
_UNTYPED = frozenset({"run", "exec", "attach", "portForward", "containerLogs"})
_CHECKS = (["log"], ["ping"], ["syncloop"])
Page = Callable[[web.BaseRequest, list[str]], Awaitable[web.StreamResponse]]
log = logging.getLogger(__name__)


class Routes:
    """The pages of one node. `health` serves those of the process."""

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
            "runningpods": self._running_pods,
            "healthz": self._healthz,
            "metrics": self._metrics,
            "configz": self._configz,
            "stats": self._stats,
            "containerPort": self._port,
        }

    async def serve(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        """Answers a request that is allowed; `path` is decoded."""
        parts = path.strip("/").split("/")
        page = self._pages.get(parts[0])
        if page is None:
            return answer(self._health, path)
        try:
            if parts[0] in _UNTYPED:
                _need_any_type(request)
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
        found = self._running(parts)
        options = _stream_options(request.rel_url.query)
        argv = request.rel_url.query.getall("command", [])
        return await remotecommand.serve_session(
            request,
            options,
            lambda channels: remotecommand.execute(self._view.runtime, found, argv, options, channels),
        )

    async def _attach(self, request: web.BaseRequest, parts: list[str]) -> web.StreamResponse:
        found = self._running(parts)
        options = _stream_options(request.rel_url.query)
        return await remotecommand.serve_session(
            request,
            options,
            lambda channels: remotecommand.attach(self._view.runtime, found, options, channels),
        )

    def _running(self, parts: list[str]) -> tuple[Sandbox, Container]:
        if len(parts) == 4:  # with the pod's uid before the container
            parts = [parts[0], parts[1], parts[3]]
        _need(parts, 3)
        return self._view.running(*parts)

    async def _run(self, request: web.BaseRequest, parts: list[str]) -> web.StreamResponse:
        """Runs a command without streams; answers with its output."""
        found = self._running(parts)
        collected = _Collected()
        argv = request.rel_url.query.get("cmd", "").split(" ")
        options = StreamOptions(False, True, True, False)
        await remotecommand.execute(self._view.runtime, found, argv, options, collected)
        return web.Response(body=bytes(collected.data), content_type="text/plain")

    # -- ports

    async def _port_forward(self, request: web.BaseRequest, parts: list[str]) -> web.StreamResponse:
        _need(parts, 2)
        view = self._view
        pod = view.pod(parts[0], parts[1])
        if pod is None:
            raise ServerError(404, "pod does not exist")
        ports = portforward.ports_of(view, pod)
        return await portforward.serve_ports(request, ports, lambda: _ports(request.rel_url.query))

    async def _port(self, request: web.BaseRequest, parts: list[str]) -> web.StreamResponse:
        """Connects the API server to a pod's port: the machine does not route the pods' addresses."""
        _need(parts[:3], 3)
        pod = self._view.pod(parts[0], parts[1])
        connection = None
        if pod is not None and parts[2].isdigit():
            connection = await portforward.connected(self._view, pod, int(parts[2]))
        if pod is None or connection is None:
            return web.Response(status=502, text="connection refused")
        target = "/" + request.raw_path.split("/", 5)[5] if len(parts) > 3 else "/"
        sandbox = self._view.runtime.sandbox(pod_spec.uid_of(pod))
        named = [("Host", f"{sandbox.ip if sandbox is not None else ''}:{parts[2]}")]
        named += [(name, value) for name, value in request.headers.items() if name.lower() not in _HOP]
        try:
            answer = await http_client.request(
                connection, request.method, target, named, await request.read()
            )
        except OSError as error:
            return web.Response(status=502, text=str(error))
        finally:
            await connection.close()
        headers = [(name, value) for name, value in answer.headers if name.lower() not in _HOP]
        return web.Response(
            body=answer.body, status=answer.status, reason=answer.reason, headers=CIMultiDict(headers)
        )

    # -- about the node

    async def _pods(self, _request: web.BaseRequest, _parts: list[str]) -> web.StreamResponse:
        listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self._view.pods()}
        return web.Response(body=orjson.dumps(listed), content_type="application/json")

    async def _running_pods(self, _request: web.BaseRequest, _parts: list[str]) -> web.StreamResponse:
        """Lists the pods that the runtime knows, with less detail than the API."""
        items = []
        for pod in pods_in_use(self._view):
            names = ("name", "namespace", "uid")
            metadata = {name: pod.pod["metadata"].get(name, "") for name in names}
            containers = [
                {"name": container.container.name, "image": container.container.image, "resources": {}}
                for container in pod.containers
            ]
            items.append({"metadata": metadata, "spec": {"containers": containers}, "status": {}})
        listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
        return web.Response(body=orjson.dumps(listed), content_type="application/json")

    async def _healthz(self, _request: web.BaseRequest, parts: list[str]) -> web.StreamResponse:
        """Answers all checks alike: one node's kubelet answers at all or not at all."""
        if parts and parts not in _CHECKS:
            raise ServerError(404, "404 page not found")
        return web.Response(text="ok")

    async def _metrics(self, request: web.BaseRequest, parts: list[str]) -> web.StreamResponse:
        page = _METRICS.get("/".join(parts))
        if page is None:
            return answer(self._health, "/".join(["/metrics", *parts]))
        await self._view.runtime.measure()
        return web.Response(body=page(self._view).encode(), headers={"Content-Type": CONTENT_TYPE})

    async def _configz(self, _request: web.BaseRequest, _parts: list[str]) -> web.StreamResponse:
        config = kubelet_configuration(self._view.features.configuration, self._view.settings)
        return web.Response(body=orjson.dumps({"kubeletconfig": config}), content_type="application/json")

    async def _stats(self, _request: web.BaseRequest, parts: list[str]) -> web.StreamResponse:
        if parts != ["summary"]:
            raise ServerError(404, "404 page not found")
        await self._view.runtime.measure()
        return web.Response(body=orjson.dumps(summary(self._view)), content_type="application/json")


class _Collected:
    """Channels that only collect output."""

    def __init__(self) -> None:
        self.data = bytearray()

    async def read(self) -> bytes:
        return b""

    async def resized(self) -> tuple[int, int]:
        await asyncio.Event().wait()  # waits for ever: there is no terminal
        return 0, 0

    async def write(self, channel: int, data: bytes) -> None:
        self.data += data

    async def finish(self, status: dict[str, Any]) -> None:
        if status.get("reason") == "InternalError":
            raise ServerError(500, status["message"])


def _need_any_type(request: web.BaseRequest) -> None:
    """Raises 406 if the client names the types that it takes, 415 if it sends no body with that."""
    accepted = request.headers.get("Accept") or "*/*"
    if any(kind.partition(";")[0].strip() == "*/*" for kind in accepted.split(",")):
        return
    without_body = request.method in {"POST", "PUT", "PATCH"} and "Content-Length" not in request.headers
    what = "415: Unsupported Media Type" if without_body else "406: Not Acceptable"
    raise ServerError(int(what[:3]), f"{what}\n\nAvailable representations: ")


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


@dataclass(frozen=True, slots=True)
class Credentials:
    """Files: the serving certificate, its key, and the authority of clients (--client-ca-file)."""

    certificate: str
    key: str
    client_ca: str

    def context(self) -> ssl.SSLContext:
        return serving_context(self.certificate, self.key, self.client_ca)


class Listener:
    """Serves one node's `routes` to clients that `access` allows; without it to everybody, for tests."""

    def __init__(self, routes: Routes, context: ssl.SSLContext | None, access: Access | None) -> None:
        self._routes = routes
        self._context = context
        self._access = access
        self._listener = WebListener(self._serve)
        self.port = 0

    async def start(self, address: str, port: int) -> None:
        """Starts to listen; port 0 is any. Raises OSError."""
        self.port = await self._listener.start(address, port, self._context)

    async def stop(self) -> None:
        await self._listener.stop()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        path = unquote(request.rel_url.raw_path)
        refusal = await self._access.refusal(request, path) if self._access is not None else None
        return refusal or await self._routes.serve(request, path)

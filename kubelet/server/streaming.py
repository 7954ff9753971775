"""The streaming server of a container runtime: kubelets are given its URLs, each of which counts once.

Source: k8s.io/kubelet/pkg/cri/streaming (server.go, request_cache.go), 1.36.
"""

import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

import grpc
from aiohttp import web

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apimachinery.process.listeners import WebListener
from kubeskew.kubelet.containers.runtime_service import RuntimeService
from kubeskew.kubelet.containers.sandbox import Container, Sandbox
from kubeskew.kubelet.protocols.grpc_calls import RpcError
from kubeskew.kubelet.protocols.messages import cri_v1_pb2 as messages
from kubeskew.kubelet.server import remotecommand
from kubeskew.kubelet.server.portforward import PodPorts, serve_ports
from kubeskew.kubelet.server.remotecommand import StreamOptions, serve_session
from kubeskew.kubelet.server.stats import ServerError

_ADDRESS = "127.0.0.1"
_SECONDS = 60.0  # for which a URL counts
_MOST = 1000  # URLs that nobody has used yet
_TOKEN = 8  # characters
_NOT_FOUND = "404 page not found"
Serve = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class _Expected:
    kind: str
    due: float
    serve: Serve


class StreamingServer:
    """Serves commands and ports on loopback, to whoever knows a URL that has been made."""

    def __init__(self, runtime: RuntimeService, clock: Clock, entropy: Entropy) -> None:
        self._runtime = runtime
        self._clock = clock
        self._entropy = entropy
        self._expected: dict[str, _Expected] = {}  # by token, the oldest first
        self._listener = WebListener(self._serve)
        self._port = 0

    async def start(self) -> None:
        """Raises OSError."""
        self._port = await self._listener.start(_ADDRESS, 0, None)

    async def stop(self) -> None:
        await self._listener.stop()

    def exec_url(self, sandbox: Sandbox, container: Container, request: messages.ExecRequest) -> str:
        """Raises RpcError."""
        options = _options(request)
        session = partial(remotecommand.execute, self._runtime, (sandbox, container), [*request.cmd], options)
        return self._url("exec", lambda incoming: serve_session(incoming, options, session))

    def attach_url(self, sandbox: Sandbox, container: Container, request: messages.AttachRequest) -> str:
        """Raises RpcError."""
        options = _options(request)
        session = partial(remotecommand.attach, self._runtime, (sandbox, container), options)
        return self._url("attach", lambda incoming: serve_session(incoming, options, session))

    def port_forward_url(self, sandbox: Sandbox, request: messages.PortForwardRequest) -> str:
        """Raises RpcError."""
        ports = PodPorts(self._runtime, self._clock, sandbox.pod_uid)
        wanted = [*request.port]
        return self._url("portforward", lambda incoming: serve_ports(incoming, ports, lambda: wanted))

    def _url(self, kind: str, serve: Serve) -> str:
        now = self._clock.monotonic()
        for token in [token for token, expected in self._expected.items() if expected.due <= now]:
            del self._expected[token]
        if len(self._expected) >= _MOST:
            text = "maximum number of in-flight requests exceeded"
            raise RpcError(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        drawn = bytes.fromhex(self._entropy.uid().replace("-", ""))
        token = base64.urlsafe_b64encode(drawn)[:_TOKEN].decode()
        self._expected[token] = _Expected(kind, now + _SECONDS, serve)
        return f"http://{_ADDRESS}:{self._port}/{kind}/{token}"

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        kind, _, token = request.path.strip("/").partition("/")
        expected = self._expected.get(token)
        if expected is None or expected.kind != kind:
            return web.Response(status=HTTPStatus.NOT_FOUND, text=_NOT_FOUND)
        del self._expected[token]
        if expected.due <= self._clock.monotonic():
            return web.Response(status=HTTPStatus.NOT_FOUND, text=_NOT_FOUND)
        try:
            return await expected.serve(request)
        except ServerError as error:
            return web.Response(status=error.status, text=error.text)


def _options(request: messages.ExecRequest | messages.AttachRequest) -> StreamOptions:
    """Raises RpcError (validateExecRequest)."""
    if request.tty and request.stderr:
        raise RpcError(grpc.StatusCode.INVALID_ARGUMENT, "tty and stderr cannot both be true")
    if not (request.stdin or request.stdout or request.stderr):
        raise RpcError(grpc.StatusCode.INVALID_ARGUMENT, "one of stdin, stdout, or stderr must be set")
    return StreamOptions.of(request.stdin, request.stdout, request.stderr, request.tty)

"""A node's listener: TLS on the node's own loopback address, for clients of the cluster's authority.

All nodes of a process share the TLS context and, where it is given, the port: each has an address of its own.
"""

import asyncio
import logging
import ssl
from dataclasses import dataclass

from aiohttp import web

from kubelet.server.routes import Routes

_MASTERS = "system:masters"
_ADMINISTRATORS = frozenset({_MASTERS, "kubeadm:cluster-admins"})
_API_SERVER = "kube-apiserver-kubelet-client"
_OPEN = frozenset({"/healthz", "/livez"})

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Files: the serving certificate, its key, and the authority of clients (--client-ca-file)."""

    certificate: str
    key: str
    client_ca: str

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.key)
        context.load_verify_locations(self.client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols(["http/1.1"])
        return context


class Listener:
    """Serves one node's `routes`; without a TLS context in plain HTTP and to everybody, for tests."""

    def __init__(self, routes: Routes, context: ssl.SSLContext | None) -> None:
        self._routes = routes
        self._context = context
        self._front = web.Server(self._serve, access_log=None)
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self, address: str, port: int) -> None:
        """Listen; port 0 is any. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._front, address, port, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Let go of every connection."""
        if self._server is not None:
            self._server.close()
            self._front.pre_shutdown()
            await self._front.shutdown(0.05)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._context is not None and request.path not in _OPEN:
            refusal = _refusal(request)
            if refusal is not None:
                return refusal
        return await self._routes.serve(request)


def _refusal(request: web.BaseRequest) -> web.Response | None:
    transport = request.transport
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    if not certificate:
        return web.Response(status=401, text="Unauthorized")
    subject = [pair for names in certificate["subject"] for pair in names]
    user = next((value for kind, value in subject if kind == "commonName"), "")
    groups = {value for kind, value in subject if kind == "organizationName"}
    if user == _API_SERVER or groups & _ADMINISTRATORS:
        return None
    verb = {"GET": "get", "POST": "create", "PUT": "update", "DELETE": "delete"}.get(request.method, "get")
    text = f"Forbidden (user={user}, verb={verb}, resource=nodes, subresource(s)=[proxy])"
    return web.Response(status=403, text=text)

"""A node's listener: TLS on the node's own loopback address, for clients of the cluster's authority.

All nodes of a process share the TLS context and, if one is given, the port: each has its own address.
"""

import logging
import ssl
from dataclasses import dataclass
from urllib.parse import unquote

from aiohttp import web

from kubeskew.apimachinery.process.web_listener import WebListener
from kubeskew.apimachinery.security.serving import serving_context
from kubeskew.kubelet.server.access import Access
from kubeskew.kubelet.server.routes import Routes

log = logging.getLogger(__name__)


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
        """Closes every connection."""
        await self._listener.stop()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        path = unquote(request.rel_url.raw_path)
        refusal = await self._access.refusal(request, path) if self._access is not None else None
        return refusal or await self._routes.serve(request, path)

"""Listens for HTTP requests that one function answers: those to nodes, and to the metrics server."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

from aiohttp import web

_SHUTDOWN_SECONDS = 0.05  # in which a connection may end by itself


class WebListener:
    """Gives each request to `serve`, and sends what that returns."""

    def __init__(self, serve: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        self._front = web.Server(serve, access_log=None)
        self._server: asyncio.Server | None = None

    async def start(self, address: str, port: int, context: ssl.SSLContext | None) -> int:
        """Starts to listen; port 0 is any. Returns the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._front, address, port, ssl=context)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Closes every connection."""
        if self._server is not None:
            self._server.close()
            self._front.pre_shutdown()
            await self._front.shutdown(_SHUTDOWN_SECONDS)

"""HTTP listeners of components: the health endpoint on loopback, and one whose requests a function answers.

The health endpoint has `/healthz /livez /readyz /metrics` and JSON pages. The other one takes the requests to
nodes and to the metrics server.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager

import orjson
from aiohttp import web

from kubeskew.apimachinery.process.health_checks import WAIT, Health

_SHUTDOWN_SECONDS = 0.05  # in which a connection may end by itself
log = logging.getLogger(__name__)

WAIT_SECONDS_MAX = 30.0
_LOOK_SECONDS = 0.005


class WebListener:
    """Calls `serve` for each request, and sends its answer."""

    def __init__(self, serve: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        self._front = web.Server(serve, access_log=None)
        self._server: asyncio.Server | None = None

    async def start(self, address: str, port: int, context: ssl.SSLContext | None) -> int:
        """Starts to listen; port 0 is any. The result is the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._front, address, port, ssl=context)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._front.pre_shutdown()
            await self._front.shutdown(_SHUTDOWN_SECONDS)


@asynccontextmanager
async def serve_health(health: Health, address: str, port: int) -> AsyncIterator[int]:
    """Serves `health` while the context is open, and yields the port."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/readyz" and WAIT in request.query:
            await until_ready(health, request.query[WAIT])
        return answer(health, request.path, request.query.getall("name[]", ()))

    runner = web.ServerRunner(web.Server(handle, access_log=None), shutdown_timeout=0.2)
    await runner.setup()
    site = web.TCPSite(runner, address, port)
    await site.start()
    bound: int = runner.addresses[0][1]
    log.info("serving health and metrics on http://%s:%d", address, bound)
    try:
        yield bound
    finally:
        await runner.cleanup()


async def until_ready(health: Health, seconds: str) -> None:
    """Waits until the component is ready, for `seconds` at most, and not at all if that is no number.

    A client's request may wait here instead of being sent again and again: a check costs no more than some
    calls.
    """
    try:
        looks = int(min(float(seconds), WAIT_SECONDS_MAX) / _LOOK_SECONDS)
    except ValueError:
        return
    for _ in range(looks):
        if not health.failing():
            return
        await asyncio.sleep(_LOOK_SECONDS)


def answer(health: Health, path: str, names: Collection[str] = ()) -> web.Response:
    """Answers a GET of `path`; of metrics only the series with these names, if any are given."""
    if path in {"/healthz", "/livez"}:
        return web.Response(text="ok")
    if path == "/readyz":
        failing = health.failing()
        return web.Response(text="\n".join(failing) or "ok", status=500 if failing else 200)
    registry = health.registry if path == "/metrics" else health.more_metrics.get(path)
    if registry is not None:
        from kubeskew.apimachinery.metrics.exposition import content_type, exposition

        chosen = registry.restricted_registry(names) if names else registry
        text = exposition(chosen.collect(), health.version, checked=False)
        return web.Response(body=text, headers={"Content-Type": content_type(health.version)})
    if path in health.pages:
        return web.Response(body=orjson.dumps(health.pages[path]()), content_type="application/json")
    return web.Response(text="404 page not found", status=404)

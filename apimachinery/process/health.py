"""The HTTP endpoint of a component: `/healthz /livez /readyz /metrics` and its JSON pages, on loopback."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import orjson
from aiohttp import web

from kubeskew.apimachinery.process.health_checks import WAIT, Health

log = logging.getLogger(__name__)

WAIT_SECONDS_MAX = 30.0
_LOOK_SECONDS = 0.005


@asynccontextmanager
async def serve_health(health: Health, address: str, port: int) -> AsyncIterator[int]:
    """Serve `health` while the context is open; gives the port."""

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
    """Returns once the component is ready, or after so many seconds; at once if that is no number.

    The question may hang instead of being asked again and again: looking costs no more than some calls.
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

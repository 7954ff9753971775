"""Health, version and metrics at URLs of their own, without TLS."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

from kubeskew.apiserver.storage.etcd.http_answers import HTTPAnswers
from kubeskew.apiserver.storage.etcd.server import EtcdServer


@asynccontextmanager
async def served(server: EtcdServer, addresses: Sequence[tuple[str, int]]) -> AsyncIterator[None]:
    """Serves at each host and port. Raises OSError if it cannot listen there."""
    answers = HTTPAnswers(server)

    async def handle(request: web.Request) -> web.Response:
        status, kind, text = await answers.answer(request.path)
        return web.Response(status=status, text=text, content_type=kind)

    application = web.Application()
    application.router.add_get("/{path:.*}", handle)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        for host, port in addresses:
            await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()

"""Ids of requests, their counts and times, and counts of answers that have not ended yet."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apiserver.http.request import Handler, Request, RequestInfo, Response, Tunnel, Upgrade
from kubeskew.apiserver.metrics import RequestMetrics

_ID_MAX = 64  # characters of a client's own id; as upstream


def with_audit_id(handler: Handler, entropy: Entropy) -> Handler:
    """Takes the client's `Audit-ID` or a new one; it comes back in the answer and stands in the log."""

    async def identify(request: Request) -> Response:
        request.request_id = request.headers.get("audit-id", "")[:_ID_MAX] or entropy.uid()
        response = await handler(request)
        response.headers.append(("Audit-Id", request.request_id))
        if not any(name == "Cache-Control" for name, _ in response.headers):
            response.headers.append(("Cache-Control", "no-cache, private"))
        return response

    return identify


def with_audit(handler: Handler, metrics: RequestMetrics, clock: Clock) -> Handler:
    async def audit(request: Request) -> Response:
        request.known_at = begun = clock.monotonic()
        response = await handler(request)
        metrics.observe(request, response, (request.answered_at or clock.monotonic()) - begun)
        if type(response.body) is not bytes and request.info.is_long_running:
            _count_open(metrics, request.info, response)
        return response

    return audit


def _count_open(metrics: RequestMetrics, info: RequestInfo, response: Response) -> None:
    """Counts the answer among the long-running ones while it is being sent."""
    body = response.body
    if isinstance(body, Upgrade):
        response.body = Upgrade(partial(_talk, metrics, info, body))
    elif not isinstance(body, bytes):
        response.body = _pieces(metrics, info, body)


async def _talk(metrics: RequestMetrics, info: RequestInfo, upgrade: Upgrade, tunnel: Tunnel) -> None:
    with metrics.long_running(info):
        await upgrade.talk(tunnel)


async def _pieces(
    metrics: RequestMetrics, info: RequestInfo, body: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    generator: Any = body
    with metrics.long_running(info):
        async with aclosing(generator):
            async for piece in body:
                yield piece

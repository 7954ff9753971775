"""Keeps the client of a scenario asking while its cluster has faults, as somebody at a keyboard would."""

import asyncio
from collections.abc import Callable

import orjson

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.client.transport import Request, Response, Transport

_SECONDS = 60.0  # that it asks again, longer than outages are drawn
_PAUSE = 0.5


class PatientTransport:
    """Sends requests again that got no answer, while faults last.

    Whether a create without an answer was done shows when it is sent again: then the object that is there is
    the answer.
    """

    def __init__(self, inner: Transport, lasts: Callable[[], bool]) -> None:
        self._inner = inner
        self._lasts = lasts

    async def __call__(self, request: Request) -> Response:
        if request.timeout is None:
            return await self._inner(request)
        loop = asyncio.get_running_loop()
        end, lost = loop.time() + _SECONDS, False
        while True:
            try:
                answer = await self._inner(request)
            except CONNECTION_ERRORS:
                if not self._lasts() or loop.time() > end:
                    raise
                lost = True
                await asyncio.sleep(_PAUSE)
                continue
            if lost and request.method == "POST" and answer.status == 409:
                return await self._made(request) or answer
            return answer

    async def _made(self, request: Request) -> Response | None:
        """Returns the object that an earlier try has made; None if it cannot be read."""
        try:
            name = orjson.loads(request.body or b"")["metadata"]["name"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return None
        path = f"{request.target.partition('?')[0]}/{name}"
        answer = await self._inner(Request("GET", path, request.headers, None, request.timeout))
        return answer if answer.status == 200 else None

    async def close(self) -> None:
        await self._inner.close()

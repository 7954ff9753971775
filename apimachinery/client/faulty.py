"""Puts the faults of a component between its client and the API server."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import Any

import orjson

from kubeskew.apimachinery.client.transport import Request, Response, Transport
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.faults.calls import Call, call_of
from kubeskew.apimachinery.faults.injecting import Injector, RequestLostError


class FaultyTransport:
    """Sends requests through another transport, unless a fault of the injector is in the way.

    `user` is whom a fault may name: of the controller manager, the account of one controller.
    """

    def __init__(self, inner: Transport, injector: Injector, user: str = "") -> None:
        self._inner = inner
        self._injector = injector
        self._user = user

    def __call__(self, request: Request) -> Coroutine[Any, Any, Response]:
        if self._injector.decider is None and request.timeout is not None:
            return self._inner(request)
        return self._send(request)

    async def _send(self, request: Request) -> Response:
        call = call_of(request.method, request.target, request.body, self._user)
        try:
            async with asyncio.timeout(request.timeout):
                response = await self._injector.inject(call, lambda: self._inner(request), _discard)
        except StatusError as error:
            return _Refusal(error)
        if call is None or call.verb != "watch":
            return response
        return _Watch(response, self._injector, call)

    async def close(self) -> None:
        await self._inner.close()


async def _discard(response: Response) -> None:
    await response.close()


class _Refusal:
    """An answer that no server gave."""

    def __init__(self, error: StatusError) -> None:
        self.status = error.code
        self.headers: Mapping[str, str] = {"Content-Type": "application/json"}
        if error.retry_after is not None:
            self.headers = {**self.headers, "Retry-After": str(error.retry_after)}
        self._content = orjson.dumps(error.status())

    async def body(self) -> bytes:
        return self._content

    async def lines(self) -> AsyncIterator[bytes]:
        yield self._content

    async def close(self) -> None:
        """There is no connection."""


class _Watch:
    """The answer to a watch, whose events faults may hold back, and whose connection an outage cuts."""

    def __init__(self, response: Response, injector: Injector, call: Call) -> None:
        self._response = response
        self._injector = injector
        self._call = call
        self._cut: asyncio.Task[None] | None = None
        injector.cuts[self._break_off] = None

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def body(self) -> bytes:
        return await self._response.body()

    def lines(self) -> AsyncIterator[bytes]:
        return self._injector.lines(self._call, self._response.lines(), self._check)

    def _check(self) -> None:
        if self._cut is not None:
            raise RequestLostError("Connection reset by peer")

    def _break_off(self) -> None:
        self._cut = asyncio.ensure_future(self._response.close())

    async def close(self) -> None:
        self._injector.cuts.pop(self._break_off, None)
        await self._response.close()

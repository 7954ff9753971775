"""The faults of one component that is a client: around its transports, and on the log's time line.

`FaultyTransport` stands between the client and the API server. The component announces firings as it
announces its start. Before a crash it does so at once and waits for the answer, while nothing else of the
process runs; so the crash comes exactly at the call that was chosen.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any

import orjson

from kubeskew.apimachinery.client.announcements import post
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient
from kubeskew.apimachinery.client.transport import Request, Response, Transport
from kubeskew.apimachinery.environment import RETRY_SECONDS, Environment, LastWords, announcement
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.faults.fault import Call, Fault, call_of
from kubeskew.apimachinery.faults.injector import CRASHED, FIRED, Injector, ProcessFaults, RequestLostError
from kubeskew.apimachinery.objects import Object

log = logging.getLogger(__name__)


class FaultyTransport:
    """Sends requests through another transport, unless a fault of the injector is in the way.

    `user` is a name that a fault may select: in the controller manager, the account of one controller.
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
        """Nothing to close: there is no connection."""


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


class ComponentFaults:
    """The faults of `component`. `wrap` its transports, then `attach` the client that announces its faults.

    `last_words` posts announcements without giving way to anything else; `end` ends the process, given the id
    of the fault.
    """

    def __init__(
        self,
        process: ProcessFaults,
        component: str,
        environment: Environment,
        last_words: LastWords,
        end: Callable[[str], None],
    ) -> None:
        self._process = process
        self._component = component
        self._environment = environment
        self._last_words = last_words
        self._end = end
        self._client: APIClient | None = None
        self._waiting: deque[Object] = deque()
        self._posting: asyncio.Task[None] | None = None
        self.injector = process.injector(component, self._crash, self._record)

    def wrap(self, transport: Transport, user: str = "") -> Transport:
        return FaultyTransport(transport, self.injector, user)

    def attach(self, client: APIClient) -> None:
        """Announces by `client` what has fired and will fire."""
        self._client = client
        self._post_waiting()

    def close(self) -> None:
        """Ends the announcements of a component that has left the process."""
        self._process.forget(self._component)
        if self._posting is not None:
            self._posting.cancel()

    def _announcement(self, what: str, detail: str) -> Object:
        return {**announcement(self._environment, self._component, what), "detail": detail}

    def _record(self, what: str, detail: str) -> None:
        log.warning("%s: %s", what, detail)
        self._waiting.append(self._announcement(what, detail))
        self._post_waiting()

    def _post_waiting(self) -> None:
        done = self._posting is None or self._posting.done()
        if self._client is not None and self._waiting and done:
            self._posting = asyncio.create_task(self._post(self._client), name="announce faults")

    async def _post(self, client: APIClient) -> None:
        while self._waiting:
            try:
                await post(client, self._environment.timeline_dir, self._waiting[0])
            except StatusError as error:
                log.warning("cannot announce a fault: %s", error)
            except CONNECTION_ERRORS:
                await self._environment.clock.sleep(RETRY_SECONDS)
                continue
            self._waiting.popleft()

    async def _crash(self, fault: Fault, detail: str) -> None:
        log.warning("%s: %s", FIRED, detail)
        words = [*self._waiting, self._announcement(FIRED, detail), self._announcement(CRASHED, detail)]
        self._last_words(words)
        self._end(fault.id)

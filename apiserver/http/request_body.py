"""Reads the body of one request from the socket; a reader that lags makes the sender wait."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from kubeskew.apiserver.http.request import BodyBrokenError, BodyTooLargeError

_BUFFERED_MAX = 1 << 18  # bytes kept for a handler that has not asked for them yet


class Body:
    """Holds a request's body: filled by the connection (`feed`, `finish`, `fail`), read by one handler.

    `pause` and `resume` stop and restart the sender; `expected` is called before the first wait for bytes.
    """

    def __init__(self, announced: int, pause: Callable[[], None], resume: Callable[[], None]) -> None:
        self.announced = announced  # its length in bytes as the head says, 0 if it does not
        self.complete = False
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._error: Exception | None = None
        self._paused = False
        self._pause = pause
        self._resume = resume
        self._expected: Callable[[], None] | None = None
        self._waiter: asyncio.Future[None] | None = None

    def when_wanted(self, announce: Callable[[], None]) -> None:
        """Calls `announce` once, when the handler first waits for bytes (100 Continue)."""
        self._expected = announce

    def feed(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        if self._size > _BUFFERED_MAX and not self._paused:
            self._paused = True
            self._pause()
        self._wake()

    def finish(self) -> None:
        self.complete = True
        self._wake()

    def fail(self, error: Exception) -> None:
        """Says that the rest will not come: the connection is gone, or its framing wrong."""
        if not self.complete:
            self._error = error
            self._wake()

    async def read(self, limit: int) -> bytes:
        """Returns the whole body. Raises BodyTooLargeError (in bytes), BodyBrokenError if its end never
        comes.
        """
        if self.announced > limit:
            raise BodyTooLargeError
        if self.complete and self._size <= limit:  # the rule: it came with its head
            return self._taken()
        found, size = [], 0
        while chunk := await self._next():
            size += len(chunk)
            if size > limit:
                raise BodyTooLargeError
            found.append(chunk)
        return found[0] if len(found) == 1 else b"".join(found)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yields the whole body as it comes, however large. Raises BodyBrokenError if its end never comes."""
        while chunk := await self._next():
            yield chunk

    async def skip(self) -> None:
        """Lets the rest of it pass by unread; returns when it has ended, one way or the other."""
        self._expected = None
        try:
            while await self._next():
                pass
        except BodyBrokenError:
            pass

    async def _next(self) -> bytes:
        """Returns the bytes that have come since the last call; empty at the end."""
        while not self._chunks:
            if self._error is not None:
                raise BodyBrokenError(str(self._error))
            if self.complete:
                return b""
            await self._wait()
        return self._taken()

    def _taken(self) -> bytes:
        """Takes the bytes that have come since the last call; the sender may go on."""
        found = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        if self._paused:
            self._paused = False
            self._resume()
        return found

    async def _wait(self) -> None:
        if self._expected is not None:
            announce, self._expected = self._expected, None
            announce()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

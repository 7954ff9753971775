"""A worker's link to the writer of its log, which it joins again after the writer was started again."""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from kubeskew.apiserver.storage.forwarding.frames import (
    Door,
    FrameConnection,
    Message,
    connected,
    restored,
)
from kubeskew.apiserver.storage.interfaces import DamageError, StorageError
from kubeskew.apiserver.storage.records import Event, Place

CLOSED = "the store is closed"
KNOCK_SECONDS = 0.2
WRITER_SECONDS = 10.0  # to wait for a writer that is started again

log = logging.getLogger(__name__)

Came = Callable[[Sequence[Event]], None]
Find = Callable[[Place], Event | None]  # an event that has come; None if it is not known any more
Read = Callable[[Place], Awaitable[Event]]  # from the database
Answer = Callable[[str], Any]  # of this worker, to a question of another


class WriterLink:
    """Hands every commit to `came` before the write that it answers returns."""

    def __init__(self, door: Door) -> None:
        self.refused = False  # the last write, by the database
        self.came: Came = lambda _: None
        self.find: Find = lambda _: None
        self.read: Read | None = None
        self.answer: Answer = lambda _: None
        self._door = door
        self._writer: FrameConnection | None = None
        self._joined = asyncio.Event()
        self._tasks: dict[asyncio.Future[Any], None] = {}
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)
        self._closing = False

    @property
    def up(self) -> bool:
        return self._joined.is_set()

    async def join(self) -> None:
        """Returns once a writer takes changes. Raises StorageError."""
        await self._knock()
        await self._available()

    async def _knock(self) -> None:
        self._writer = await connected(self._door.knock(), self._received, self._lost)

    async def _available(self) -> FrameConnection:
        try:
            async with asyncio.timeout(WRITER_SECONDS):
                await self._joined.wait()
        except TimeoutError:
            raise StorageError("no process writes the log") from None
        if self._writer is None or self._closing:
            raise StorageError(CLOSED)
        return self._writer

    def _lost(self) -> None:
        """The writer has ended: whether it has written what is under way is not known to anybody."""
        self._joined.clear()
        self._writer = None
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            if not each.done():
                each.set_exception(StorageError("the log's writer has ended: this may be written or not"))
        if not self._closing:
            self._spawn(self._knock_again())

    async def _knock_again(self) -> None:
        """Knocks until it can: there may be too many open files for a while."""
        while not self._closing:
            try:
                await self._knock()
            except OSError as error:
                log.warning("cannot reach the log's writer: %s", error)
                await asyncio.sleep(KNOCK_SECONDS)
            else:
                return

    def _spawn(self, work: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    # Requests

    def send(self, word: str, *values: Any) -> Awaitable[Any]:
        """The answer to a `write`, a `call` or an `ask`. Raises StorageError, also if there is no writer for
        long, or the link is closed.
        """
        if self._closing:
            raise StorageError(CLOSED)
        if self._writer is None or not self._joined.is_set():
            return self._send_later(word, *values)
        return self._send(self._writer, word, *values)

    def tell(self, word: str, *values: Any) -> None:
        """Sends what has no answer; a writer that has ended need not know."""
        if self._writer is not None:
            self._writer.send((word, *values))

    async def _send_later(self, word: str, *values: Any) -> Any:
        return await self._send(await self._available(), word, *values)

    def _send(self, writer: FrameConnection, word: str, *values: Any) -> asyncio.Future[Any]:
        number = next(self._numbers)
        waiting = self._waiting[number] = asyncio.get_running_loop().create_future()
        writer.send((word, number, *values))
        return waiting

    # What the writer sends

    def _received(self, message: Message) -> None:
        match message:
            case ("events", events):
                self.came(events)
            case ("written", number, place):
                self._written(number, place)
            case ("done", number, result):
                self.refused = False
                self._settle(number, result)
            case ("failed", number, parts):
                error = restored(parts)
                if isinstance(error, StorageError):
                    self.refused = error.refused or isinstance(error, DamageError)
                self._settle(number, error)
            case ("question", number, question):
                if self._writer is not None:
                    self._writer.send(("answer", number, self.answer(question)))
            case ("joined",):
                self._joined.set()
            case _:
                raise ValueError(f"the log's writer sent {message[0]}")

    def _written(self, number: int, place: Place) -> None:
        self.refused = False
        event = self.find(place)
        if event is not None:
            self._settle(number, event)
        elif self.read is not None:
            self._spawn(self._read(number, self.read(place)))

    async def _read(self, number: int, reading: Awaitable[Event]) -> None:
        try:
            self._settle(number, await reading)
        except Exception as error:
            self._settle(number, error)

    def _settle(self, number: int, outcome: Any) -> None:
        waiting = self._waiting.pop(number, None)
        if waiting is None or waiting.done():
            return
        if isinstance(outcome, Exception):
            waiting.set_exception(outcome)
        else:
            waiting.set_result(outcome)

    async def close(self) -> None:
        """Takes nothing more, and waits for the answers to what was sent; idempotent."""
        self._closing = True
        if self._waiting:
            await asyncio.wait([*self._waiting.values()], timeout=WRITER_SECONDS)
        if self._writer is not None:
            self._writer.close()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

"""Starts the processes of a program, again when one ends by itself, and stops them with this process."""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import click

from kubeskew.apimachinery.process.component import ComponentContext
from kubeskew.apimachinery.process.runtime import STOP_SECONDS
from kubeskew.shim.program_file import Program
from kubeskew.shim.programs import Programs
from kubeskew.shim.readiness import Readiness

_FIRST_DELAY_SECONDS, _MOST_DELAY_SECONDS = 10.0, 300.0
_FORGIVEN_SECONDS = 600.0
T = TypeVar("T")
log = logging.getLogger(__name__)
# On the time line: the program has ended by itself, and so before it was ever ready.
ENDED, FAILED = "ended", "failed"


class ProgramEndedError(click.ClickException):
    """The program cannot be started, or has ended by itself: this process ends with status 1."""


class Announce(Protocol):
    """Puts an event of the component on the time line."""

    async def __call__(self, what: str, detail: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Supervision:
    """`is_startable` waits until the program may start; it is False if this process is to stop meanwhile.

    `serving` is entered each time the program is ready, and left when it ends or is to stop; an error there
    ends it. Without it a program that is started again is announced at once.
    `has_served`: the program has been what it is there for; without it, it was ready by itself.
    """

    program: Program
    programs: Programs
    readiness: Readiness
    ctx: ComponentContext
    announce: Announce
    is_startable: Callable[[], Awaitable[bool]]
    serving: Callable[[], AbstractAsyncContextManager[None]] | None = None
    grace_seconds: float = STOP_SECONDS  # between SIGTERM and SIGKILL
    has_served: Callable[[], bool] | None = None

    async def run(self) -> None:
        """Returns once this process is to stop, and the program has ended."""
        if not await self.is_startable():
            return
        await self._start(self.programs.start())
        looking = asyncio.create_task(self.readiness.watch())
        try:
            await self._keep()
        finally:
            looking.cancel()

    async def _start(self, start: Awaitable[None]) -> None:
        try:
            await start
        except OSError as error:
            raise ProgramEndedError(f"cannot run {self.program.path}: {error.strerror or error}") from error

    async def _keep(self) -> None:
        """Waits until this process is to stop. A process of the program that ends by itself is started again,
        as a kubelet does with a static pod; one that has never been ready is not.
        """
        programs, clock = self.programs, self.ctx.environment.clock
        delays = RestartDelays(clock.monotonic)
        while True:
            ended = await self._one_life()
            if ended is None:
                return await self._stop()
            name, text = ended
            how = f"{name}: {text}" if name else text
            log.error("%s ended by itself: %s", self.program.path, how)
            has_served = self.has_served or self.readiness.ready.is_set
            await self.announce(ENDED if has_served() else FAILED, how)
            if not has_served():
                await self._stop()
                raise ProgramEndedError(f"{self.program.path} ended by itself: {how}")
            await before_stop(clock.sleep(delays.next(name)), self.ctx)
            if not await self.is_startable():
                return await self._stop()
            self.readiness.begin_again()
            await self._start(programs.start_again(name))
            if self.serving is None:
                await self.announce("started", str(self.program))

    async def _one_life(self) -> tuple[str, str] | None:
        """Waits for the first process that ends: its name, and how; None if this one is to stop before."""
        serving = asyncio.create_task(self._serve())
        ending = asyncio.create_task(before_stop(self.programs.ended(), self.ctx))
        try:
            await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
            return await ending
        finally:
            serving.cancel()
            ending.cancel()
            await asyncio.gather(serving, ending, return_exceptions=True)

    async def _serve(self) -> None:
        await self.readiness.ready_again.wait()
        async with self.serving() if self.serving is not None else nullcontext():
            await asyncio.Event().wait()

    async def _stop(self) -> None:
        """Ends the program. What does not end by itself in time is killed by the caller."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.grace_seconds):
                await self.programs.stop()


async def before_stop(work: Coroutine[Any, Any, T], ctx: ComponentContext) -> T | None:
    """The result of `work`; None if this process is to stop before."""
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(ctx.stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() and not ctx.stop.is_set() else None
    finally:
        working.cancel()
        stopping.cancel()


class RestartDelays:
    """A kubelet's delays before it starts a container again: none, 10 s, 20 s, up to 5 minutes; none again
    after 10 minutes without an end (pkg/kubelet/kubelet.go, 1.36).
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._last: dict[str, tuple[float, float]] = {}  # the time of the last end, and the delay after it

    def next(self, name: str) -> float:
        now, (last, delay) = self._now(), self._last.get(name, (-math.inf, 0.0))
        if now - last > _FORGIVEN_SECONDS:
            chosen = 0.0
        else:
            chosen = min(2 * delay or _FIRST_DELAY_SECONDS, _MOST_DELAY_SECONDS)
        self._last[name] = now, chosen
        return chosen

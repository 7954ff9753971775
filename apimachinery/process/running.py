"""Runs a process: its event loop, its memory, the signals that end it."""

import asyncio
import contextlib
import gc
import logging
import resource
import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

STOP_SECONDS = 8.0  # what a component may take to stop; whoever sent it the signal waits a little longer

Exit = Callable[[int], None]  # ends the process at once

log = logging.getLogger(__name__)


def allow_open_files() -> None:
    """Raises the limit of open files as far as the system lets the process, as Go programs do: a kubelet
    needs seven per node."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # a limit that is not for us to reach
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def call_all(calls: Sequence[Callable[[], None]]) -> None:
    """Call each, in their order."""
    for call in [*calls]:
        call()


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run one coroutine on a uvloop event loop."""
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


def settle_memory() -> None:
    """Exempts what the process has built by now from garbage collection, which spares most of its work.

    Objects are trees of plain values, freed without it; looking for cycles took a tenth of a pod's create.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


def end_on_signals(end: Exit) -> None:
    """SIGTERM and SIGINT end the process at once: for the time in which it holds nothing yet."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, 128 + number)


def stop_on_signals(stop: asyncio.Event, end: Exit) -> None:
    """SIGTERM and SIGINT set `stop`; a second one ends the process at once."""
    loop = asyncio.get_running_loop()

    def received(number: int) -> None:
        if stop.is_set():
            end(128 + number)
        log.info("received %s, shutting down", signal.Signals(number).name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received, number)


async def until_stopped(work: Awaitable[None], stop: asyncio.Event) -> None:
    """Await `work`, which returns once `stop` is set; if it does not within STOP_SECONDS, cancel it.

    A server that takes connections and never answers, or a start that waits for something, holds nobody.
    """
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            await asyncio.wait({working}, timeout=STOP_SECONDS)
        if not working.done():
            log.warning("not stopped after %.0f s: giving up what is under way", STOP_SECONDS)
            working.cancel()
            await asyncio.wait({working})
            return
        working.result()
    finally:
        stopping.cancel()
        working.cancel()

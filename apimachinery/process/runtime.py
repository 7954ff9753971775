"""The runtime of a component's process: event loop, memory, log, and the signals and panics that end it.

The log has upstream's levels of verbosity, in klog's structured form: `"message" key="value"`. Level 4 is
Python's DEBUG, and the others lie around it; errors are logged at any level. A panic is a failure that known
bugs cause; it ends the process as Go does.
"""

import asyncio
import contextlib
import gc
import json
import logging
import resource
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

Value = str | Sequence[str]

_MOST = 10
EXIT_STATUS = 2  # of a Go program that panics

log = logging.getLogger(__name__)
STOP_SECONDS = 8.0  # for a component to stop; the sender of the signal waits a little longer

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Exit = Callable[[int], None]  # ends the process at once


def level_of(verbosity: int) -> int:
    """Level of logging for a verbosity: 0 is INFO, 4 is DEBUG."""
    return max(1, logging.INFO - 5 * verbosity // 2)


def name_levels() -> None:
    """Levels of any verbosity but DEBUG's are shown as INFO."""
    for verbosity in range(1, _MOST + 1):
        if level_of(verbosity) != logging.DEBUG:
            logging.addLevelName(level_of(verbosity), "INFO")


def set_up_logging(verbosity: int) -> None:
    """Logs to standard error, one line per record."""
    name_levels()
    logging.basicConfig(
        stream=sys.stderr,
        level=level_of(verbosity),
        format="%(asctime)s.%(msecs)03dZ %(levelname).1s %(name)s: %(message)s",
        datefmt="%Y-%m-%dT%H:%M:%S",
    )
    logging.Formatter.converter = staticmethod(time.gmtime)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def log_values(log: logging.Logger, verbosity: int, message: str, **values: Value) -> None:
    """Logs a message with its values, if the log is that verbose."""
    if log.isEnabledFor(level_of(verbosity)):
        log.log(level_of(verbosity), "%s", structured(message, **values))


def structured(message: str, **values: Value) -> str:
    """klog's form of a message with its values: texts quoted, lists of names by KObjSlice."""
    return " ".join([json.dumps(message), *(f"{key}={_written(value)}" for key, value in values.items())])


def _written(value: Value) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return f"[{','.join(json.dumps(each, ensure_ascii=False) for each in value)}]"


class Panic(BaseException):
    """A failure that no retry catches. The text is Go's behind `panic: `."""


def raised(panic: Panic) -> None:
    """Raises a panic in code that has no process to end."""
    raise panic


def end_by(panic: Panic, end: Callable[[int], None]) -> None:
    """Logs the panic, and ends the process at once."""
    log.critical("panic: %s [recovered]", panic)
    end(EXIT_STATUS)


def allow_open_files() -> None:
    """Raises the limit of open files as far as the system lets the process, as Go programs do: a kubelet
    needs seven per node."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # a limit that is not for us to reach
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def call_all(calls: Sequence[Callable[[], None]]) -> None:
    """Copies the sequence first: a call may change it."""
    for call in [*calls]:
        call()


def run_loop(main: Coroutine[Any, Any, None]) -> None:
    """Runs one coroutine on a uvloop event loop.

    The handlers of signals are afterwards what they were before: uvloop, other than asyncio, leaves those of
    its closed loop, which lose every signal.
    """
    import uvloop

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main)
    finally:
        for number, handler in before.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)


def settle_memory() -> None:
    """Exempts all objects that the process has by now from garbage collection, which spares most of its work.

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
    """Awaits `work`, which ends once `stop` is set, and cancels it if that takes longer than STOP_SECONDS.

    A server that takes connections and never answers, or a start that waits for something, does not hold up
    the end.
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

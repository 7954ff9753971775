"""Runs coroutines for callers that are not asynchronous, in an event loop with a thread of its own.

What is wrong on the caller's side, or what a cluster refuses, is raised without the frames in between: pytest
then shows the line of the test and the message. The methods through which tests come here are hidden, too, by
`__tracebackhide__` of their modules.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.conformance.errors import UnservedKindError

T = TypeVar("T")

__tracebackhide__ = True  # pytest reads it
_TOLD = (StatusError, UnservedKindError, *CONNECTION_ERRORS)  # whose message is all, beside its cause


class EventLoop:
    """Runs coroutines for callers of any thread, also of one that runs a loop of its own.

    What they leave open (connections, processes that fork others) lives on between the calls.
    """

    def __init__(self) -> None:
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=asyncio.run, args=[_serve(started)], name="kubeskew")
        self._thread.daemon = True  # an interpreter that ends need not wait for it
        self._thread.start()
        self._loop, self._closed = started.result()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns what the coroutine returns. A caller that is interrupted waits until it has been
        cancelled."""
        tasks: list[asyncio.Task[Any] | None] = []

        async def noted() -> T:
            tasks.append(asyncio.current_task())
            return await _first_failure(work)

        try:
            return asyncio.run_coroutine_threadsafe(noted(), self._loop).result()
        except (UserError, ClusterError) as error:
            raise error.with_traceback(None) from None
        except _TOLD as error:
            raise error.with_traceback(None) from error.__cause__
        except BaseException:
            asyncio.run_coroutine_threadsafe(_cancelled(tasks), self._loop).result()
            raise

    def close(self) -> None:
        """Cancels what still runs, and ends the thread."""
        self._loop.call_soon_threadsafe(self._closed.set)
        self._thread.join()


async def _serve(started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    closed = asyncio.Event()
    started.set_result((asyncio.get_running_loop(), closed))
    await closed.wait()


async def _cancelled(tasks: list[asyncio.Task[Any] | None]) -> None:
    """Cancels tasks, and returns when they have ended."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def _first_failure(work: Coroutine[Any, Any, T]) -> T:
    """Returns what `work` returns; of several failures at once, the first is raised."""
    try:
        return await work
    except BaseExceptionGroup as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None

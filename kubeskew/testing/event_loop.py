"""Runs coroutines for callers that are not asynchronous, in an event loop with a thread of its own.

Errors of the caller and refusals of a cluster are raised without the frames in between: pytest then shows the
line of the test and the message. The methods that tests call are hidden, too, by `__tracebackhide__` of their
modules.
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
_EXPLAINED = (StatusError, UnservedKindError, *CONNECTION_ERRORS)  # whose message suffices, with the cause


class EventLoop:
    """Callers may be in any thread, also in one that runs a loop of its own.

    Connections and processes that coroutines leave open live on between the calls.
    """

    def __init__(self) -> None:
        started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=asyncio.run, args=[_serve(started)], name="kubeskew")
        self._thread.daemon = True  # an interpreter that ends need not wait for it
        self._thread.start()
        self._loop, self._closed = started.result()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """A caller that is interrupted waits until the coroutine has been cancelled."""
        tasks: list[asyncio.Task[Any] | None] = []

        async def noted() -> T:
            tasks.append(asyncio.current_task())
            return await _first_failure(work)

        try:
            return asyncio.run_coroutine_threadsafe(noted(), self._loop).result()
        except (UserError, ClusterError) as error:
            raise error.with_traceback(None) from None
        except _EXPLAINED as error:
            raise error.with_traceback(None) from error.__cause__
        except BaseException:
            asyncio.run_coroutine_threadsafe(_cancelled(tasks), self._loop).result()
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._closed.set)
        self._thread.join()


async def _serve(started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    closed = asyncio.Event()
    started.set_result((asyncio.get_running_loop(), closed))
    await closed.wait()


async def _cancelled(tasks: list[asyncio.Task[Any] | None]) -> None:
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def _first_failure(work: Coroutine[Any, Any, T]) -> T:
    """Raises the first of several failures at once."""
    try:
        return await work
    except BaseExceptionGroup as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None

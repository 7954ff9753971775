"""An event loop without sockets, threads or real time.

Its time moves to the next timer when nothing is left to do. Callbacks of a dead process are not run. Tasks
hash by their numbers, so that sets of them have one order.
"""

import asyncio
import contextvars
import functools
import gc
import heapq
import itertools
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple, cast

from kubeskew.simulation.connections import Connections
from kubeskew.simulation.processes import CURRENT, Process
from kubeskew.simulation.sockets import MemorySockets

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_FINISH_SECONDS = 60.0  # virtual time for the remaining tasks to end
_FINISH_ROUNDS = 5
_COLLECT_CALLBACKS = 50_000  # after which garbage is collected
_TURN_SECONDS = (
    1e-6  # virtual time of one loop iteration, so that a task that yields until time passes goes on
)
# Components that make each other work again and never wait (a pod that its kubelet refuses is replaced at
# once) would need millions of iterations for the seconds until one of them stops. So many in a row are such a
# loop, for others wait after some hundreds; from then on each takes about as long as on real machines.
_BUSY_TURNS, _BUSY_SECONDS = 10_000, 1e-3


def process_of(handle: Any) -> Process | None:
    """None for the scenario's own callbacks."""
    process: Process | None = handle._context.get(CURRENT)
    return process


class DeadlockError(Exception):
    """Nothing is left to do, and nothing will ever be."""


class BrokenOffError(Exception):
    """The simulation's time limit has passed."""


class SerialTask(asyncio.Task[T]):
    """A task with a number of its own, by which it hashes and is sorted."""

    def __init__(self, serial: int, work: Coroutine[Any, Any, T], **options: Any) -> None:
        self.serial = serial  # its hash is asked for while it is made
        context = options.get("context")
        self.process = CURRENT.get() if context is None else context.get(CURRENT)
        super().__init__(work, **options)

    def __hash__(self) -> int:
        return self.serial

    def __lt__(self, other: "SerialTask[Any]") -> bool:
        return self.serial < other.serial


class _ReadyHandle(asyncio.Handle):
    """Holds a callback that is due, as asyncio does, without the fields of its debug mode."""

    __slots__ = ()

    def __init__(
        self,
        call: Callable[..., object],
        rest: Sequence[Any],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = call
        self._args = rest
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class SimulatedLoop(Connections):
    """Runs callbacks in order of time, and of their scheduling."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._scheduled: list[Any]  # timers, behind their times and numbers
        self._ready: deque[Any]
        self._stopping: bool
        self._timer_cancelled_count: int
        self._serials: Iterator[int] = itertools.count(1)
        self.message_sockets = MemorySockets()
        self._finishing = False
        self._skipped: list[Any] = []  # callbacks of dead processes
        self.measures = False  # whether processes' seconds are counted
        self.reorder: Callable[[list[Any]], list[Any]] | None = None  # reorders ready callbacks
        self._busy = 0  # iterations since all waited for time to pass
        self._left = _COLLECT_CALLBACKS
        self.observe: Callable[[Any], None] | None = None  # called with each callback before it runs
        self.over: Callable[[], bool] | None = None  # says when what is run is to be broken off
        self.failures: list[str] = []  # exceptions that no task has handled
        self.set_exception_handler(self._note)

    def create_task(
        self,
        coro: Any,
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Any]:
        task: SerialTask[Any] = SerialTask(next(self._serials), coro, loop=self, name=name, context=context)
        if task.process is not None:
            task.process.tasks[task.serial] = task
        return task

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = _ReadyHandle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def _note(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        process = CURRENT.get()
        who = process.name if process is not None else "the scenario"
        self.failures.append(f"{who}: {context['message']}: {context.get('exception')!r}")

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        timer: Any = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, (when, next(self._serials), timer))
        timer._scheduled = True
        made: asyncio.TimerHandle = timer
        return made

    def finish(self) -> None:
        """Ends all tasks, as asyncio's runner does, and closes the loop: of dead processes, too, whose
        objects would run their last lines when they are collected."""
        self._finishing = True
        self.run_until_complete(self._cancel_all())
        self.close()

    async def _cancel_all(self) -> None:
        own = asyncio.current_task()
        self._ready.extend(self._skipped)  # callbacks that would have woken dead tasks
        self._skipped.clear()
        for _ in range(_FINISH_ROUNDS):  # the last lines of a task may wait again
            left = [task for task in self._all_tasks() if task is not own]
            if not left:
                break
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=_FINISH_SECONDS)
        await self.shutdown_asyncgens()

    def _all_tasks(self) -> list[SerialTask[Any]]:
        """Tasks come in the order in which they were made."""
        return sorted(cast("set[SerialTask[Any]]", asyncio.all_tasks(self)))

    def time(self) -> float:
        return self._now

    def add_signal_handler(self, sig: int, callback: Callable[[*Ts], object], *args: *Ts) -> None:
        """The handler is the current process'."""
        process = CURRENT.get()
        if process is not None:
            process.handlers[sig] = functools.partial(callback, *args)

    def remove_signal_handler(self, sig: int) -> bool:
        process = CURRENT.get()
        return process is not None and process.handlers.pop(sig, None) is not None

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """There are no threads: the function is called at once."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    async def subprocess_exec(self, *_arguments: Any, **_: Any) -> Any:
        """Raises OSError: no other program can see the cluster."""
        raise OSError("no other program can see a simulated cluster: leave out --simulate")

    def _write_to_self(self) -> None:
        """Does nothing: no other thread waits."""

    def _process_events(self, event_list: Any) -> None:
        """Does nothing: there is no selector."""

    def _run_once(self) -> None:
        """Moves time, and runs callbacks that are ready. (asyncio's own loop calls this method by its name.)

        Raises DeadlockError, BrokenOffError.
        """
        if self.over is not None and not self._finishing and self.over():
            raise BrokenOffError("it was broken off before its end")
        scheduled, ready = self._scheduled, self._ready
        while scheduled and scheduled[0][2]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(scheduled)[2]._scheduled = False
        if ready or self._stopping:
            self._busy += 1
            self._now += _TURN_SECONDS if self._busy < _BUSY_TURNS else _BUSY_SECONDS
        elif scheduled:
            self._busy = 0
            self._now = max(self._now, scheduled[0][0])
        else:
            raise DeadlockError("nothing is left to do, and nothing will ever be")
        while scheduled and scheduled[0][0] <= self._now:
            timer = heapq.heappop(scheduled)[2]
            timer._scheduled = False
            ready.append(timer)
        if self.reorder is not None and len(ready) > 1:
            ready.extend(self.reorder([ready.popleft() for _ in range(len(ready))]))
        for _ in range(len(ready)):
            self._run(ready.popleft())

    def _run(self, handle: Any) -> None:
        if handle._cancelled:
            return
        process: Process | None = handle._context.get(CURRENT)
        if process is not None and not process.alive and not self._finishing:
            self._skipped.append(handle)
            return
        self._left -= 1
        if not self._left:
            self._left = _COLLECT_CALLBACKS
            gc.collect(1)
        if self.observe is not None:
            self.observe(handle)
        if not self.measures:
            handle._run()
            return
        began = time.process_time()
        handle._run()
        if process is not None:
            process.seconds += time.process_time() - began

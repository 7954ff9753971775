"""Runs the tasks of one program in turns: its main one, those in the background, the sides of pipes."""

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

from kubeskew.apimachinery.clock import later
from kubeskew.kubelet.containers.execution.waiting import (
    MEMORY_SPENT,
    ExitError,
    Receive,
    Request,
    Sleep,
    Until,
    wait_for,
)

BROKEN_PIPE = 141  # 128 + SIGPIPE
_LARGEST_PIPE = 64 << 20


class Task:
    """One coroutine of a program; `code` is None while it runs."""

    def __init__(self, pid: int, name: str, program: Coroutine[Any, Any, int], now: datetime) -> None:
        self.pid = pid
        self.name = name
        self.started_at = now
        self.code: int | None = None
        self.program = program
        self.wakes_at: datetime | None = now  # None: only when something wakes it
        self.check: Callable[[], bool] | None = None
        self.receives = False
        self.value: Any = None  # sent to the coroutine when it goes on

    async def ended(self) -> int:
        """Waits for the task's end; returns its exit code."""
        if self.code is None:
            await wait_for(Until(lambda: self.code is not None))
        return self.code or 0

    def end(self, code: int) -> None:
        """Ends the task from outside."""
        if self.code is None:
            self.program.close()
            self.code = code

    def is_ready(self, now: datetime) -> bool:
        """Returns whether the task can go on; sets the answer to its wait."""
        if self.check is not None and self.check():
            self.value = True
            return True
        if self.wakes_at is not None and self.wakes_at <= now:
            self.value = False if self.check is not None else self.value
            return True
        return False


class Tasks:
    """All tasks of one program. Their driver sees one coroutine, `run`."""

    def __init__(self, now: Callable[[], datetime], main_pid: int = 1) -> None:
        self._now = now
        self.main_pid = main_pid
        self._next_pid = main_pid
        self._tasks: dict[int, Task] = {}
        self._current: Task | None = None
        self.signals: list[str] = []  # signals for the main task's shell, which has traps for them
        self.has_shell = False  # whether the main task's shell has begun
        self.main_traps: dict[str, str] = {}  # traps of the main task's shell
        self.waits = False  # no task can go on before time passes or input comes

    def spawn(self, program: Coroutine[Any, Any, int], name: str) -> Task:
        """Begins another task; it has its first turn when the present one waits."""
        task = Task(self._next_pid, name, program, self._now())
        self._next_pid += 1 if self._next_pid > 1 else 6
        self._tasks[task.pid] = task
        return task

    def running(self) -> list[Task]:
        """Returns the tasks that have not ended, oldest first."""
        return [task for task in self._tasks.values() if task.code is None]

    def find(self, pid: int) -> Task | None:
        task = self._tasks.get(pid)
        return task if task is not None and task.code is None else None

    def kill(self, task: Task, code: int) -> None:
        """Ends a task; a task that ends itself does so at once, by ExitError."""
        if task is self._current:
            raise ExitError(code)
        task.end(code)

    async def run(self, program: Coroutine[Any, Any, int], name: str) -> int:
        """Runs `program` and all that it spawns until it ends; returns its exit code."""
        main = self.spawn(program, name)
        try:
            while main.code is None:
                if len(self._tasks) == 1 and main.check is None and main.is_ready(self._now()):
                    await self._run_alone(main)
                else:
                    await self._run_round(main)
        finally:
            for task in self._tasks.values():
                task.end(MEMORY_SPENT)
        return main.code

    async def _run_alone(self, main: Task) -> None:
        """Runs one step of the only task, whose waits are those of the program."""
        request = self._step(main)
        if request is not None and (isinstance(request, Until) or len(self._tasks) > 1):
            self._hold(main, request)
        elif request is not None:
            data = await wait_for(request)
            main.value = data if isinstance(request, Receive) else None

    async def _run_round(self, main: Task) -> None:
        """Runs one step of every task that can go on; waits if none could."""
        now, went_on, gave_way = self._now(), False, False
        for task in [*self._tasks.values()]:
            if task.code is not None or not task.is_ready(now):
                continue
            went_on = True
            request = self._step(task)
            if main.code is not None:
                return
            if request is not None:
                self._hold(task, request)
                gave_way |= isinstance(request, Sleep) and request.seconds <= 0
        self._tasks = {pid: task for pid, task in self._tasks.items() if task.code is None}
        if gave_way:
            await wait_for(Sleep(0))
        elif not went_on:
            await self._pause()

    def _step(self, task: Task) -> Request | None:
        """Runs a task to its next wait; returns None if it has ended."""
        value, task.value = task.value, None
        task.check, task.receives = None, False
        self._current = task
        try:
            request: Request = task.program.send(value)
        except StopIteration as done:
            task.code = done.value
            return None
        finally:
            self._current = None
        return request

    def _hold(self, task: Task, request: Request) -> None:
        seconds = request.seconds
        task.wakes_at = None if seconds >= 1e9 else later(self._now(), max(0.0, seconds))
        task.check = request.check if isinstance(request, Until) else None
        task.receives = isinstance(request, Receive)

    async def _pause(self) -> None:
        """Waits for whatever ends the first wait of a task."""
        moments = [task.wakes_at for task in self._tasks.values() if task.wakes_at is not None]
        seconds = (min(moments) - self._now()).total_seconds() if moments else float("inf")
        reader = next((task for task in self._tasks.values() if task.receives), None)
        self.waits = True
        try:
            if reader is None:
                await wait_for(Sleep(max(seconds, 1e-6)))
                return
            data = await wait_for(Receive(seconds))
        finally:
            self.waits = False
        if data is not None and reader.code is None:
            reader.value, reader.wakes_at = data, self._now()


class PipeEnd:
    """A pipe that one task writes and another reads."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._written = False  # the writer has ended
        self._abandoned = False  # the reader has ended

    def write(self, data: bytes) -> None:
        """Writes to the pipe; raises ExitError if nobody reads, as SIGPIPE ends a program."""
        if self._abandoned:
            raise ExitError(BROKEN_PIPE)
        if len(self._data) + len(data) > _LARGEST_PIPE:
            raise ExitError(MEMORY_SPENT)
        self._data.extend(data)

    def unread(self, data: bytes) -> None:
        self._data[:0] = data

    async def read(self) -> bytes:
        """Returns the next bytes; empty at the end."""
        if not self._data and not self._written:
            await wait_for(Until(lambda: bool(self._data) or self._written))
        data = bytes(self._data)
        self._data.clear()
        return data

    def end(self) -> None:
        """Ends the writer's side."""
        self._written = True

    def abandon(self) -> None:
        """Ends the reader's side."""
        self._abandoned = True
        self._data.clear()

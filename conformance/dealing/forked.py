"""Runs jobs in processes forked from this one, which has imported everything: no threads, and none is shared.

A job that takes too long, or ends its process, is lost; its worker is replaced, and the others go on.
"""

import gc
import multiprocessing
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from types import FrameType, TracebackType
from typing import Any, Generic, NoReturn, Self, TypeVar

from kubeskew.apimachinery.clock import deadline
from kubeskew.conformance.dealing.frozen_objects import frozen
from kubeskew.conformance.dealing.workers import DiedError, LostError, OnCellMoment, Terms, Work

J = TypeVar("J")
R = TypeVar("R")

_STOP_SECONDS = 5.0
_TERMINATED = 128 + signal.SIGTERM


class _Worker(Generic[J, R]):
    """One process, replaced after it has done a number of jobs."""

    def __init__(self, work: Callable[[J], R], jobs: int, patience: float) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, theirs = context.Pipe()
        self._left, self._patience = jobs, patience
        self.job: J | None = None
        self._late: Callable[[], bool] = lambda: False
        given = theirs, self.connection, work
        self.process: ForkProcess = context.Process(target=_serve, args=given, daemon=True)
        self.process.start()
        theirs.close()

    @property
    def worn(self) -> bool:
        return self._left <= 0

    @property
    def late(self) -> bool:
        return self.job is not None and self._late()

    def give(self, job: J) -> None:
        self.job, self._late = job, deadline(self._patience)
        self._left -= 1
        self.connection.send(job)

    def take(self) -> R | LostError:
        self.job = None
        try:
            answer: R | LostError = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(_STOP_SECONDS)
            self._left = 0
            return DiedError(f"its process ended by itself with status {self.process.exitcode}")
        return answer

    def end(self) -> None:
        self.connection.close()
        if self.process.is_alive():
            self.process.terminate()
            self.process.join(_STOP_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


def _serve(connection: Connection, others: Connection, work: Callable[[J], R]) -> None:
    """Serves jobs until the parent ends. Its end of the pipe, `others`, was forked, too: left open, it would
    let a process whose parent was killed wait for ever."""
    others.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interruption means
    signal.signal(signal.SIGTERM, _leave)
    gc.disable()  # each simulation collects its own garbage
    with suppress(EOFError, OSError):
        while True:
            job = connection.recv()
            answer: R | LostError
            try:
                answer = work(job)
            except Exception:
                answer = LostError(traceback.format_exc())
            connection.send(answer)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    """Raises SystemExit, so that the job's `finally` blocks run."""
    sys.exit(_TERMINATED)


class ForkedWorkers(Generic[J, R]):
    """At most `count` processes that do `work`, as a context.

    `patience` is how many seconds a job may take; after `jobs` of them a process is replaced, since not all
    memory that they use is given back.
    """

    def __init__(self, count: int, work: Callable[[J], R], *, patience: float, jobs: int) -> None:
        self._count, self._work = count, work
        self._patience, self._jobs = patience, jobs
        self._idle: list[_Worker[J, R]] = []
        self._busy: list[_Worker[J, R]] = []
        self._frozen = ExitStack()

    def __enter__(self) -> Self:
        gc.collect()
        self._frozen.enter_context(frozen())  # imported objects are the same in all of them
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        for worker in (*self._busy, *self._idle):
            worker.end()
        self._frozen.close()

    @property
    def count(self) -> int:
        return self._count

    @property
    def free(self) -> bool:
        return len(self._busy) < self._count

    @property
    def busy(self) -> bool:
        return bool(self._busy)

    def give(self, job: J) -> None:
        worker = self._idle.pop() if self._idle else _Worker(self._work, self._jobs, self._patience)
        worker.give(job)
        self._busy.append(worker)

    def ended(self, seconds: float, *others: Any) -> Iterator[tuple[J, R | LostError]]:
        """Waits at most `seconds` for the first job that has ended, or until one of the `others` can be
        read."""
        ready = wait([*(worker.connection for worker in self._busy), *others], seconds)
        for worker in [*self._busy]:
            job = worker.job
            if job is None or not (worker.connection in ready or worker.late):
                continue
            self._busy.remove(worker)
            if worker.connection in ready:
                answer = worker.take()
                self._retire(worker)
            else:
                worker.end()
                answer = LostError(f"it did not end within {self._patience:g} s")
            yield job, answer

    def _retire(self, worker: _Worker[J, R]) -> None:
        if worker.worn:
            worker.end()
        else:
            self._idle.append(worker)


@dataclass(frozen=True, slots=True)
class ForkedPool:
    """Workers are processes of this machine, `count` at a time."""

    count: int

    def workers(
        self, work: Work[J, R], terms: Terms, on_moment: OnCellMoment, say: Callable[[str], None]
    ) -> ForkedWorkers[J, R]:
        return ForkedWorkers(
            self.count, lambda job: work(job, on_moment), patience=terms.patience, jobs=terms.jobs
        )


class HereWorkers(Generic[J, R]):
    """Does jobs in this process, one at a time, when it is asked which have ended."""

    def __init__(self, work: Callable[[J], R]) -> None:
        self._work = work
        self._jobs: list[J] = []
        self._frozen = ExitStack()

    def __enter__(self) -> Self:
        gc.collect()
        self._frozen.enter_context(frozen())
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _where: TracebackType | None
    ) -> None:
        self._frozen.close()

    @property
    def count(self) -> int:
        return 1

    @property
    def free(self) -> bool:
        return not self._jobs

    @property
    def busy(self) -> bool:
        return bool(self._jobs)

    def give(self, job: J) -> None:
        self._jobs.append(job)

    def ended(self, seconds: float) -> Iterator[tuple[J, R | LostError]]:
        """Does the job that was given. Raises what the work raises."""
        while self._jobs:
            job = self._jobs.pop()
            yield job, self._work(job)


class HerePool:
    def workers(
        self, work: Work[J, R], terms: Terms, on_moment: OnCellMoment, say: Callable[[str], None]
    ) -> HereWorkers[J, R]:
        return HereWorkers(lambda job: work(job, on_moment))

"""Starts a cluster once for many runs with faults: each run goes on in a process that is forked then.

A run is the same one, to the byte, as in a simulation of its own.
"""

import os
import signal
import traceback
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.util import Finalize
from typing import Any, NoReturn, TypeVar

from kubeskew.conformance.scenario import Cell
from kubeskew.simulation.forks import BranchError, Forks
from kubeskew.simulation.loop import BrokenOffError
from kubeskew.simulation.runs import (
    FaultyRun,
    Simulated,
    new_directory,
    simulate_faulty_course,
    simulate_with_faults,
    with_steps,
)

R = TypeVar("R")

_STARTED_MAX = 2  # clusters at a time; each takes what has changed of this process' memory


@dataclass(frozen=True, slots=True)
class _Request:
    """A run to be done, and the function that makes its answer. Both go through a pipe."""

    run: FaultyRun
    summarize: Callable[[Simulated], Any]


class Beginnings:
    """Runs cells with faults. The clusters of those that were run last stay started, in processes of their
    own, which end with this one.

    The first run of a cell is done in this process, so that all later ones inherit the tables of its
    versions.
    """

    def __init__(self) -> None:
        self._started: OrderedDict[str, _Started] = OrderedDict()  # by the names of cells
        self._last = ""  # the cell that was run last
        self.end = Finalize(self, _end, (self._started,), exitpriority=0)  # ends the processes

    def run(self, cell: Cell, run: FaultyRun, summarize: Callable[[Simulated], R]) -> R:
        """`summarize`, a function that can be pickled, makes the result of the run.

        Raises BrokenOffError when the time for it is over, and BranchError if its process has ended before.
        """
        before, self._last = self._last, cell.name
        if cell.name not in self._started:
            if before != cell.name:
                return summarize(simulate_with_faults(cell, run, lambda _: None))
            if len(self._started) == _STARTED_MAX:
                self._started.popitem(last=False)[1].end()
            self._started[cell.name] = _Started(cell, [each.connection for each in self._started.values()])
        self._started.move_to_end(cell.name)
        answer = self._started[cell.name].ask(_Request(run, summarize))
        if isinstance(answer, BranchError | BrokenOffError):
            raise answer
        summary: R = answer
        return summary


def _end(processes: "OrderedDict[str, _Started]") -> None:
    while processes:
        processes.popitem()[1].end()


class _Started:
    """A process in which the cluster of a cell has started. `others` are connections to others like it."""

    def __init__(self, cell: Cell, others: list[Connection]) -> None:
        self.connection, theirs = Pipe()
        self._pid = os.fork()
        if not self._pid:
            for connection in (self.connection, *others):
                connection.close()  # they end as soon as nobody else has this end of it
            _serve(cell, theirs)
        theirs.close()

    def ask(self, request: _Request) -> Any:
        """The answer may be a BranchError."""
        try:
            self.connection.send(request)
            return self.connection.recv()
        except (EOFError, OSError):
            return BranchError("the process with the started cluster has ended")

    def end(self) -> None:
        self.connection.close()
        os.waitpid(self._pid, 0)


class _Requests:
    """The course of the simulation in that process: each request goes on in a process that is forked."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._request: _Request | None = None
        self.forks: Forks[object] = Forks(new_directory)

    def choose(self) -> FaultyRun:
        """Each request goes on in a new process. Raises EOFError when nobody is left who could ask."""
        while True:
            request: _Request = self._connection.recv()
            answer = self.forks.fork(self._connection)
            if answer is None:
                self._request = request
                return request.run
            self._connection.send(answer)

    def part(self, cell: Cell) -> Cell:
        return cell if self._request is None else with_steps(cell, self._request.run.steps)

    def finish(self, simulated: Simulated) -> None:
        if self._request is not None:
            self.forks.leave(self._request.summarize(simulated))

    def answer_all(self, simulated: Simulated) -> NoReturn:
        """Every request gets the one run that there is, until nobody is left."""
        while True:
            request = self._connection.recv()
            self._connection.send(request.summarize(simulated))


def _serve(cell: Cell, connection: Connection) -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends when its parent does
    requests = _Requests(connection)
    try:
        simulated = simulate_faulty_course(cell, requests)
        requests.answer_all(simulated)  # its cluster does not start, with any plan
    except BrokenOffError as error:
        requests.forks.leave(error)
    except BaseException:
        requests.forks.fail()
        with suppress(OSError):  # it usually ends when nobody is left
            connection.send(BranchError(traceback.format_exc()))
    finally:
        os._exit(0)

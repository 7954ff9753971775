"""`python -m kubeskew.conformance.dealing.dask_jobs FD`: does the jobs that a Dask worker is given.

A simulation needs a process of its own: its working directory, its log, its event loop, and forks without
threads. So a Dask worker starts this one (`dask_worker.py`), which imports once and forks for jobs, as --jobs
does. It ends with who started it: when the other end of its socket is closed.
"""

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from kubeskew.apimachinery.clock import deadline
from kubeskew.conformance.dealing.forked import ForkedWorkers
from kubeskew.conformance.dealing.workers import Work
from kubeskew.conformance.runner import Moment

ENDED, MOMENT = "ended", "moment"  # kinds of messages to who started it

_IDLE_SECONDS = 600.0  # after which nobody is expected to come: whoever gave jobs may have been killed
_POLL_SECONDS = 1.0
_LONGEST = 200  # characters of a text, so that a line goes into a pipe whole
_READ = 1 << 16


@dataclass(frozen=True, slots=True)
class Order:
    """Work to be done; `patience` and `jobs` are as of Terms."""

    work: Work[Any, Any]
    patience: float
    jobs: int


def serve(connection: Connection) -> None:
    """Does jobs until the connection is closed, or no job has come for ten minutes."""
    count: int = connection.recv()
    order: Order = connection.recv()
    reading, writing = os.pipe()

    def on_moment(cell: str, moment: Moment) -> None:
        line = json.dumps([cell[:_LONGEST], moment.text[:_LONGEST], moment.step, moment.is_last])
        os.write(writing, line.encode() + b"\n")

    def work(job: tuple[int, Any]) -> Any:
        return order.work(job[1], on_moment)

    workers = ForkedWorkers(count, work, patience=order.patience, jobs=order.jobs)
    with workers, suppress(EOFError, BrokenPipeError, ConnectionError):
        _serve(connection, workers, reading)


def _serve(connection: Connection, workers: ForkedWorkers[tuple[int, Any], Any], reading: int) -> None:
    rest, idle = b"", deadline(_IDLE_SECONDS)
    while workers.busy or not idle():
        answers = [*workers.ended(_POLL_SECONDS, connection, reading)]
        while wait([reading], 0):  # reports of jobs from before their ends
            *lines, rest = (rest + os.read(reading, _READ)).split(b"\n")
            for line in lines:
                connection.send((MOMENT, 0, line))
        for (number, _), answer in answers:
            connection.send((ENDED, number, answer))
            idle = deadline(_IDLE_SECONDS)
        if wait([connection], 0):
            workers.give((connection.recv(), connection.recv()))  # its number, and the job


def report_line(line: bytes, on_moment: Callable[[str, Moment], None]) -> None:
    cell, text, step, is_last = json.loads(line)
    on_moment(cell, Moment(text, step, is_last))


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))

"""Forks of the process that a simulation runs in, with a copy of its files.

Cells that begin with the same cluster go on from one simulation, each in a process of its own. Nothing
outside the process and its working directory may belong to the simulation.
"""

import asyncio
import os
import shutil
import signal
import stat
import traceback
from asyncio import _set_running_loop
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Generic, TypeVar

from kubeskew.conformance.scenario import Cell

R = TypeVar("R")


class BranchError(Exception):
    """A branch has not come to its end: the text is the reason."""


class Forks(Generic[R]):
    """The processes that one process forks while a simulation runs in it, one after the other.

    `directory` makes an empty directory, for a copy of the files.
    """

    def __init__(self, directory: Callable[[], str]) -> None:
        self._directory = directory
        self._answers: Connection | None = None  # in a branch, where its parent reads what came of it

    def fork(self, *ends: Connection) -> R | BranchError | None:
        """Returns None in a new process; when that has ended, in this one its answer, with files as before.

        As soon as there is something to be read from one of `ends`, the new process is killed, and EOFError
        is raised: the caller has gone.
        """
        loop, directory, kept = asyncio.get_running_loop(), Path.cwd(), self._directory()
        shutil.copytree(directory, kept, symlinks=True, copy_function=_copy, dirs_exist_ok=True)
        reading, writing = Pipe(duplex=False)
        pid = os.fork()
        if not pid:
            reading.close()
            self._answers = writing
            _set_running_loop(loop)  # asyncio knows which process a loop runs in
            return None
        writing.close()
        answer: R | BranchError | None = None
        try:
            if reading not in wait([reading, *ends]):
                raise EOFError("whoever asked for the branch has gone")
            answer = _received(reading)
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            raise
        finally:
            _, status = os.waitpid(pid, 0)
            reading.close()
            shutil.rmtree(directory, ignore_errors=True)  # a branch that failed has done so
            Path(kept).rename(directory)
            os.chdir(directory)
        if answer is None:
            return BranchError(f"its process ended by itself with status {os.waitstatus_to_exitcode(status)}")
        return answer

    def leave(self, answer: R | BranchError) -> None:
        """A branch ends here, without the interpreter's cleanup: everything that it has is its parent's,
        which gets the answer."""
        if self._answers is None:
            return
        try:
            self._answers.send(answer)
        finally:
            os._exit(0)

    def fail(self) -> None:
        """A branch ends with the traceback of the exception that is being handled."""
        self.leave(BranchError(traceback.format_exc()))


def _received(reading: Connection) -> R | BranchError | None:
    """None if the branch has ended without an answer, or in the middle of one."""
    try:
        answer: R | BranchError = reading.recv()
    except (EOFError, OSError):
        return None
    return answer


def _copy(source: str, target: str) -> None:
    """Copies a file. A socket stays the same one, for it is known by its inode."""
    if stat.S_ISSOCK(os.lstat(source).st_mode):
        os.link(source, target)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


class Branches(Generic[R]):
    """Cells that begin alike, and the results of those that other processes have run.

    `directory` makes an empty directory, for a copy of the files.
    """

    def __init__(self, cells: Sequence[Cell], directory: Callable[[], str]) -> None:
        self._cells = cells
        self.cell = cells[0]  # the one that this process runs
        self.forks: Forks[R] = Forks(directory)
        self.results: dict[str, R] = {}  # by the names of cells

    def part(self, _cell: Cell) -> Cell:
        """The process goes on with this cell. In the process that has begun it is the last, and the others
        have been run. Raises BranchError if one of them has not come to its end."""
        for cell in self._cells[:-1]:
            self.cell = cell
            answer = self.forks.fork()
            if answer is None:
                return cell
            if isinstance(answer, BranchError):
                raise BranchError(f"{cell.name}: {answer}")
            self.results[cell.name] = answer
        self.cell = self._cells[-1]
        return self.cell

    def finish(self, result: R) -> None:
        """A branch ends here; its parent gets the result."""
        self.forks.leave(result)

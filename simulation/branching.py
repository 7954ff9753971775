"""Forks a simulation in which the cluster of several cells has started: each cell goes on in a process.

Nothing outside the process and its working directory may belong to the simulation.
"""

import asyncio
import os
import pickle
import shutil
import signal
import stat
import traceback
from asyncio import _set_running_loop
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, NoReturn, TypeVar

from kubeskew.conformance.scenario import Cell

R = TypeVar("R")


class BranchError(Exception):
    """A branch has not come to its end: the text says why."""


class Branches(Generic[R]):
    """The cells that begin alike, and what came of those that other processes have run.

    `directory` makes an empty directory, for a copy of the files.
    """

    def __init__(self, cells: Sequence[Cell], directory: Callable[[], str]) -> None:
        self._cells = cells
        self.cell = cells[0]  # which of them this process runs
        self._directory = directory
        self._answers: int | None = None  # in a branch, where its parent reads what came of it
        self.results: dict[str, R] = {}  # by the names of cells

    def part(self, _cell: Cell) -> Cell:
        """Returns the cell that this process goes on with. In the process that has begun it is the last, and
        the others have been run."""
        for cell in self._cells[:-1]:
            self.cell = cell
            if self._fork():
                return cell
        self.cell = self._cells[-1]
        return self.cell

    def _fork(self) -> bool:
        """Returns True in a new process; when that has ended, False in this one, with files as before."""
        loop, directory, kept = asyncio.get_running_loop(), Path.cwd(), self._directory()
        shutil.copytree(directory, kept, symlinks=True, copy_function=_copy, dirs_exist_ok=True)
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reading)
            self._answers = writing
            _set_running_loop(loop)  # asyncio knows which process a loop runs in
            return True
        os.close(writing)
        try:
            with os.fdopen(reading, "rb") as answers:
                answer = answers.read()
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            raise
        finally:
            _, status = os.waitpid(pid, 0)
            shutil.rmtree(directory, ignore_errors=True)  # a branch that failed has done so
            Path(kept).rename(directory)
            os.chdir(directory)
        if not answer:
            ended = os.waitstatus_to_exitcode(status)
            raise BranchError(f"{self.cell.name}: its process ended by itself with status {ended}")
        result = pickle.loads(answer)  # noqa: S301 - written by our own child
        if isinstance(result, BranchError):
            raise result
        self.results[self.cell.name] = result
        return False

    def finish(self, result: R) -> None:
        """Ends the process, if it is a branch; its parent gets the result."""
        if self._answers is not None:
            self._leave(result)

    def fail(self) -> None:
        """Ends the process, if it is a branch, because of the exception that is being handled."""
        if self._answers is not None:
            self._leave(BranchError(traceback.format_exc()))

    def _leave(self, answer: R | BranchError) -> NoReturn:
        """Leaves without what a process does at its end: all that it has is its parent's."""
        try:
            with os.fdopen(self._answers or 0, "wb") as answers:
                pickle.dump(answer, answers)
        finally:
            os._exit(0)


def _copy(source: str, target: str) -> None:
    """Copies a file. A socket stays the same one, for it is known by its inode."""
    if stat.S_ISSOCK(os.lstat(source).st_mode):
        os.link(source, target)
    else:
        shutil.copy2(source, target, follow_symlinks=False)

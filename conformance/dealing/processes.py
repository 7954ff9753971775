"""Runs cells on processes wherever it is called: each on a cluster of its own, of this machine."""

import asyncio
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from kubeskew.apimachinery.clock import SystemClock
from kubeskew.cluster.forking import ForkedProcesses
from kubeskew.cluster.platform import Platform
from kubeskew.cluster.processes import ExecutedProcesses, Processes
from kubeskew.conformance.controls import LocalControl
from kubeskew.conformance.dealing.workers import Hear
from kubeskew.conformance.results import CellResult
from kubeskew.conformance.runner import Moment, noting, run_cell
from kubeskew.conformance.scenario import Cell


def local_control(progress: Callable[[str], None], processes: Processes, *, keep: bool) -> LocalControl:
    """Returns what controls a new cluster of processes for a cell."""
    directory = Path(tempfile.mkdtemp(prefix="kubeskew-"))  # short, for the paths of sockets are limited
    return LocalControl(directory, Platform(SystemClock(), processes), progress, keep=keep)


class OnProcesses:
    """Runs cells one after another, in a process that does nothing else; SIGTERM ends them and it."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._processes: Processes = ExecutedProcesses()

    def __call__(self, job: Sequence[Cell], hear: Hear) -> list[CellResult]:
        """Returns the results of the cells."""
        if self._runner is None:
            self._runner = asyncio.Runner()  # kept, with what forks components: both belong to this process
            if sys.platform == "linux":
                self._processes = ForkedProcesses(often=True, dependent=True)
        try:
            return self._runner.run(self._run(job, hear))
        except asyncio.CancelledError:
            sys.exit(128 + signal.SIGTERM)

    async def _run(self, cells: Sequence[Cell], hear: Hear) -> list[CellResult]:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        if task is not None:
            loop.add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            return [await self._result(cell, hear) for cell in cells]
        finally:
            loop.remove_signal_handler(signal.SIGTERM)

    async def _result(self, cell: Cell, hear: Hear) -> CellResult:
        def tell(moment: Moment) -> None:
            hear(cell.name, moment)

        control = local_control(noting(tell), self._processes, keep=False)
        return await run_cell(cell, control, SystemClock(), tell)

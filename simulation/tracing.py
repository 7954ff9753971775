"""Notes what a simulation does, and where another run of it does something else."""

from collections.abc import Sequence
from typing import Any

from kubeskew.simulation.processes import Process

_NAMELESS = "Task-"  # begins the names that asyncio gives, which count on from run to run


class Trace:
    """Notes every callback: its virtual time, its process, its code. Against an earlier trace it compares as
    it goes, and keeps the first difference."""

    def __init__(self, before: "Trace | None" = None) -> None:
        self.steps: list[str] = []
        self.difference = ""
        self._before: Sequence[str] | None = before.steps if before is not None else None

    def note(self, time: float, process: Process | None, handle: Any) -> None:
        """Notes a callback that is about to run."""
        who = process.name if process is not None else "the scenario"
        number = len(self.steps)
        step = f"{time:.6f} s, {who}: {_code(handle._callback)}"  # noqa: SLF001 - it has no other name
        self.steps.append(step)
        if self._before is None or self.difference:
            return
        if number >= len(self._before):
            self.difference = f"step {number}: {step}; before, it had ended"
        elif self._before[number] != step:
            self.difference = f"step {number}: {step}; before, {self._before[number]}"


def _code(callback: Any) -> str:
    """Returns the name of a callback; of a task's step, that of its coroutine and its own."""
    task: Any = getattr(callback, "__self__", None)
    if not hasattr(task, "get_coro"):
        return str(getattr(callback, "__qualname__", type(callback).__name__))
    work = task.get_coro()
    name = str(getattr(work, "__qualname__", type(work).__name__))
    given = task.get_name()
    return name if given.startswith(_NAMELESS) else f"{name} ({given})"

"""Defines how commands wait and end.

A command is a coroutine that waits for three things only, `Sleep`, `Receive` and `Until`. The tasks of one
program take turns (`tasks.py`). The driver of the program decides what the first two mean: an `exec` waits in
real time, the program of a container in its own.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

MEMORY_SPENT = 137  # exit code after a limit on memory, which all containers share with the kubelet


class Sleep(NamedTuple):
    """Waits for seconds; for ever if a program is only known to run."""

    seconds: float


class Receive(NamedTuple):
    """Waits for the next bytes of the standard input; gives empty bytes at its end, None after a timeout."""

    seconds: float = float("inf")


class Until(NamedTuple):
    """Waits until a condition holds, at most so many seconds; gives whether it holds."""

    check: Callable[[], bool]
    seconds: float = float("inf")


Request = Sleep | Receive | Until


class _Wait:
    def __init__(self, request: Request) -> None:
        self._request = request

    def __await__(self) -> Generator[Any, Any, Any]:
        return (yield self._request)


async def wait_for(request: Request) -> Any:
    """Waits; returns what the driver answers."""
    return await _Wait(request)


async def sleep(seconds: float) -> None:
    """Sleeps; zero seconds let other tasks run."""
    await _Wait(Sleep(seconds))


class ExitError(Exception):
    """Ends the shell."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code

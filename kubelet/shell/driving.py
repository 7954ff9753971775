"""Runs commands for real: `exec` waits while its command sleeps or reads."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from apimachinery.clock import Clock
from kubelet.shell.process import Request, Sleep


async def drive(
    program: Coroutine[Any, Any, int],
    clock: Clock,
    receive: Callable[[], Awaitable[bytes]],
    flush: Callable[[], Awaitable[None]],
) -> int:
    """The program's exit code. `flush` sends what it has written so far; `receive` gives its input."""
    value: bytes | None = None
    try:
        while True:
            try:
                request: Request = program.send(value)
            except StopIteration as done:
                code: int = done.value
                return code
            finally:
                await flush()
            value = None
            if isinstance(request, Sleep):
                await clock.sleep(min(request.seconds, 1e9))
            else:
                value = await receive()
    finally:
        program.close()

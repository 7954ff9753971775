"""Starts again what faults have killed, as an init system or a kubelet with static pods would."""

import asyncio
import contextvars
from collections.abc import Callable, Mapping


class Supervisor:
    """Starts again what the faults kill that it was given; what any other fault kills stays down."""

    def __init__(self) -> None:
        self._seconds: Mapping[str, float | None] = {}
        self._down: dict[int, Callable[[], object]] = {}
        self._killed = 0

    def start_again(self, seconds: Mapping[str, float | None]) -> None:
        """Has it start what these faults kill after so many seconds. None: when all is healed."""
        self._seconds = seconds

    def takes(self, fault: str) -> bool:
        """Decides whether it starts again what a fault kills."""
        return fault in self._seconds

    def killed(self, fault: str, start: Callable[[], object]) -> None:
        """Hears that a fault it knows has killed something, which `start` starts again."""
        self._killed += 1
        number, seconds = self._killed, self._seconds[fault]
        self._down[number] = start
        if seconds is not None:
            nobody = contextvars.Context()  # whoever was killed runs nothing more
            asyncio.get_running_loop().call_later(seconds, self._start, number, context=nobody)

    def _start(self, number: int) -> None:
        start = self._down.pop(number, None)
        if start is not None:
            start()

    def start_all(self) -> None:
        """Starts at once all that is still down."""
        for number in [*self._down]:
            self._start(number)

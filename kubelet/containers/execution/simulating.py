"""Runs a container's own program in its own time.

It runs up to a moment, again and again, and does the same again after a restart of the kubelet: the result
depends only on the container's start, the clock, and input from outside.
"""

from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from kubeskew.apimachinery.clock import later
from kubeskew.kubelet.containers.execution.tasks import Tasks
from kubeskew.kubelet.containers.execution.waiting import Receive, Request, Sleep

STDOUT, STDERR = "stdout", "stderr"
KEPT_LINES = 20_000
KEPT_BYTES = 10 << 20  # containerLogMaxSize
MOST_STEPS = 50_000  # at once
_LONGEST_PIECE = 16 << 10  # bytes of a line that the runtime writes at once
_EAGER_TURNS = 200  # turns without time passing; after them each takes a moment, so that a busy loop ends
_MOMENT = timedelta(milliseconds=10)


class OutputLine(NamedTuple):
    """A piece of output, up to and with the end of the line (the last one may have none)."""

    time: datetime
    stream: str
    data: bytes


@dataclass(slots=True)
class ProgramEnd:
    """The end of a program that ended by itself."""

    time: datetime
    code: int


class Simulation:
    """One run of a program. `make` begins it, with this simulation as its output and clock."""

    def __init__(
        self, make: Callable[["Simulation"], Coroutine[Any, Any, int]], started_at: datetime, *, tty: bool
    ) -> None:
        self.now = started_at
        self.lines: deque[OutputLine] = deque()
        self._kept_bytes = 0
        self.dropped = 0  # number of dropped lines
        self.ending: ProgramEnd | None = None
        self.waits_for_input = False
        self.wakes_at: datetime | None = started_at  # None: it waits for input, or has ended
        self.listeners: list[Callable[[str, bytes], None]] = []
        self._tty = tty
        self._turns = 0
        self.steps = 0
        self._open: dict[str, OutputLine] = {}  # lines without an end yet
        self.tasks: Tasks | None = None  # tasks of the program
        self.is_closed = False
        self._program = make(self)

    # -- from the program

    def write(self, stream: str, data: bytes) -> None:
        """Takes output of the program."""
        if self._tty:
            data = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
            stream = STDOUT
        for listener in self.listeners:
            listener(stream, data)
        for piece in data.splitlines(keepends=True):
            held = self._open.pop(stream, None)
            line = (
                OutputLine(self.now, stream, piece) if held is None else held._replace(data=held.data + piece)
            )
            if line.data.endswith(b"\n") or len(line.data) >= _LONGEST_PIECE:
                self._keep(line)
            else:
                self._open[stream] = line

    def _keep(self, line: OutputLine) -> None:
        self.lines.append(line)
        self._kept_bytes += len(line.data)
        while len(self.lines) > KEPT_LINES or self._kept_bytes > KEPT_BYTES:
            self._kept_bytes -= len(self.lines.popleft().data)
            self.dropped += 1

    # -- from outside

    def advance(self, until: datetime, most_steps: int = MOST_STEPS) -> None:
        """Runs up to a moment. After `most_steps` it goes on in the next call, as after a suspension."""
        last = self.steps + most_steps
        while self.wakes_at is not None and self.wakes_at <= until:
            if self.steps >= last:
                self.wakes_at = until + _MOMENT
                return
            self.now = max(self.now, self.wakes_at)
            self._step(None)

    def signal(self, name: str, now: datetime) -> None:
        """Sends a signal for which the program has a trap; its tasks check again what they wait for."""
        if self.is_closed or self.tasks is None:
            return
        self.now = max(self.now, now)
        self.tasks.signals.append(name)
        if self.tasks.waits:
            self._step(None)
        self.advance(now)

    def enter(self, now: datetime) -> None:
        """Has the program's clock be at a moment in which it is called from outside."""
        self.now = max(self.now, now)

    def feed(self, data: bytes, now: datetime) -> None:
        """Gives the program bytes for its standard input; empty bytes end it."""
        self.now = max(self.now, now)
        self._step(data)
        self.advance(now)

    def _step(self, value: bytes | None) -> None:
        self.wakes_at = None
        self.waits_for_input = False
        self.steps += 1
        try:
            request: Request = self._program.send(value)
        except StopIteration as done:
            self.ending = ProgramEnd(self.now, done.value)
            self.close()
            return
        self.waits_for_input = isinstance(request, Receive)
        if isinstance(request, Sleep | Receive):
            self._sleep(request.seconds)

    def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            self._turns = 0
            if seconds < 1e9:
                self.wakes_at = later(self.now, seconds)
            return
        self._turns += 1
        # Longer and longer, so that the turns grow with the square root of the time: one call runs all of it.
        self.wakes_at = self.now + _MOMENT * (self._turns // _EAGER_TURNS)

    def close(self) -> None:
        """Closes the output."""
        self._program.close()
        self.wakes_at = None
        self.waits_for_input = False
        self.is_closed = True
        for line in self._open.values():
            self._keep(line)
        self._open.clear()

    def pending(self) -> list[OutputLine]:
        """Returns the lines that have no end yet."""
        return [*self._open.values()]

"""A container's own program, run in its own time.

It is run up to a moment, again and again, and does the same anew after a restart of the kubelet: what a
container has done is a function of its start, the clock, and what was done to it from outside.
"""

from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from kubeskew.apimachinery.clock import later
from kubeskew.kubelet.containers.execution.process import Receive, Request, Sleep
from kubeskew.kubelet.containers.execution.tasks import Tasks

STDOUT, STDERR = "stdout", "stderr"
KEPT_LINES = 20_000
KEPT_BYTES = 10 << 20  # containerLogMaxSize
MOST_STEPS = 50_000  # at once
_LONGEST_PIECE = 16 << 10  # of a line, that the runtime writes at once
_EAGER_TURNS = 200  # turns without time passing; then each takes a moment, lest a busy loop never end
_MOMENT = timedelta(milliseconds=10)


class Line(NamedTuple):
    """A piece of output, up to and with the end of the line (the last one may have none)."""

    time: datetime
    stream: str
    data: bytes


@dataclass(slots=True)
class Ending:
    """The end of a program that ended by itself."""

    time: datetime
    code: int


class Simulation:
    """One run. `make` begins the program, given this simulation to write to and take the time from."""

    def __init__(
        self, make: Callable[["Simulation"], Coroutine[Any, Any, int]], started_at: datetime, *, tty: bool
    ) -> None:
        self.now = started_at
        self.lines: deque[Line] = deque()
        self._kept_bytes = 0
        self.dropped = 0  # lines no longer kept
        self.ending: Ending | None = None
        self.waits_for_input = False
        self.wakes_at: datetime | None = started_at  # None: it waits for input, for ever, or has ended
        self.listeners: list[Callable[[str, bytes], None]] = []
        self._tty = tty
        self._turns = 0
        self.steps = 0
        self._open: dict[str, Line] = {}  # lines without an end yet
        self.tasks: Tasks | None = None  # what the program runs
        self.is_closed = False
        self._program = make(self)

    # -- from the program

    def write(self, stream: str, data: bytes) -> None:
        """The program writes."""
        if self._tty:
            data = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
            stream = STDOUT
        for listener in self.listeners:
            listener(stream, data)
        for piece in data.splitlines(keepends=True):
            held = self._open.pop(stream, None)
            line = Line(self.now, stream, piece) if held is None else held._replace(data=held.data + piece)
            if line.data.endswith(b"\n") or len(line.data) >= _LONGEST_PIECE:
                self._keep(line)
            else:
                self._open[stream] = line

    def _keep(self, line: Line) -> None:
        self.lines.append(line)
        self._kept_bytes += len(line.data)
        while len(self.lines) > KEPT_LINES or self._kept_bytes > KEPT_BYTES:
            self._kept_bytes -= len(self.lines.popleft().data)
            self.dropped += 1

    # -- from outside

    def advance(self, until: datetime, most_steps: int = MOST_STEPS) -> None:
        """Run up to a moment. What takes more steps goes on later, as after a suspension."""
        last = self.steps + most_steps
        while self.wakes_at is not None and self.wakes_at <= until:
            if self.steps >= last:
                self.wakes_at = until + _MOMENT
                return
            self.now = max(self.now, self.wakes_at)
            self._step(None)

    def signal(self, name: str, now: datetime) -> None:
        """A signal for which the program has a trap: it looks again at what it waits for."""
        if self.is_closed or self.tasks is None:
            return
        self.now = max(self.now, now)
        self.tasks.signals.append(name)
        if self.tasks.waits:
            self._step(None)
        self.advance(now)

    def feed(self, data: bytes, now: datetime) -> None:
        """Give the program what it waits for on its standard input; empty is the end of it."""
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
            self.ending = Ending(self.now, done.value)
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
        # Ever longer, so that the turns grow with the square root of the time: all of it is run at a look.
        self.wakes_at = self.now + _MOMENT * (self._turns // _EAGER_TURNS)

    def close(self) -> None:
        """Nothing more is written."""
        self._program.close()
        self.wakes_at = None
        self.waits_for_input = False
        self.is_closed = True
        for line in self._open.values():
            self._keep(line)
        self._open.clear()

    def pending(self) -> list[Line]:
        """Lines that have no end yet."""
        return [*self._open.values()]

"""A container's own program, run in its own time.

It is run up to a moment whenever somebody asks, and does the same again after a restart of the kubelet: what
a container has written is a function of its start and the clock, as its state is.
"""

from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from kubelet.shell.process import Request, Sleep

STDOUT, STDERR = "stdout", "stderr"
KEPT_LINES = 20_000
KEPT_BYTES = 10 << 20  # containerLogMaxSize
_LONGEST_PIECE = 16 << 10  # of a line, that the runtime writes at once
_EAGER_TURNS = 200  # turns without time passing; then each takes a moment, lest a busy loop never end
_MOMENT = timedelta(milliseconds=10)


class Line(NamedTuple):
    """What was written, up to and with the end of the line (the last one may have none)."""

    time: datetime
    stream: str
    data: bytes


@dataclass(slots=True)
class Ending:
    """How the program ended by itself."""

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
        self._open: dict[str, Line] = {}  # lines without an end yet
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

    def advance(self, until: datetime, most_steps: int = 1_000_000) -> None:
        """Run up to a moment."""
        while self.wakes_at is not None and self.wakes_at <= until and most_steps > 0:
            self.now = max(self.now, self.wakes_at)
            most_steps -= 1
            self._step(None)

    def feed(self, data: bytes, now: datetime) -> None:
        """Give the program what it waits for on its standard input; empty is the end of it."""
        self.now = max(self.now, now)
        self.waits_for_input = False
        self._step(data)
        self.advance(now)

    def _step(self, value: bytes | None) -> None:
        self.wakes_at = None
        try:
            request: Request = self._program.send(value)
        except StopIteration as done:
            self.ending = Ending(self.now, done.value)
            self.close()
            return
        if isinstance(request, Sleep):
            self._sleep(request.seconds)
        else:
            self.waits_for_input = True

    def _sleep(self, seconds: float) -> None:
        if seconds > 0:
            self._turns = 0
            if seconds < 1e9:
                self.wakes_at = self.now + timedelta(seconds=seconds)
            return
        self._turns += 1
        # Ever longer, so that the turns grow with the square root of the time: all of it is run at a look.
        self.wakes_at = self.now + _MOMENT * (self._turns // _EAGER_TURNS)

    def close(self) -> None:
        """Nothing more is written."""
        self._program.close()
        self.wakes_at = None
        for line in self._open.values():
            self._keep(line)
        self._open.clear()

    def pending(self) -> list[Line]:
        """Lines that have no end yet."""
        return [*self._open.values()]

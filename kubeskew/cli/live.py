"""Draws bars on a terminal during work, in a process of its own, which reads messages from a pipe.

The worker may be busy for seconds, or fork, and any of its processes may write; a line of at most PIPE_BUF
bytes is written atomically. So the worker needs neither a thread nor a lock.
"""

import json
import multiprocessing
import os
import selectors
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from kubeskew.apimachinery.clock import deadline
from kubeskew.cli.terminal import cut, escaped

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_LONGEST = 160  # characters of a text, so that a message is written in one piece
_SECONDS = 0.25  # between drawings
_BAR = 24  # columns
_WHOLE = ""  # the key of the bar of all parts


@dataclass(frozen=True, slots=True)
class Screen:
    """Sends messages to the drawing process. Forked processes may use it, too: it is only a
    file descriptor.
    """

    pipe: int

    def bar(self, key: str, done: float | None, total: float, text: str) -> None:
        """Shows the progress of a part in a line of its own; without `done` it stays as it was."""
        self._write({"do": "bar", "key": _short(key), "done": done, "total": total, "text": _short(text)})

    def gone(self, key: str) -> None:
        self._write({"do": "gone", "key": _short(key)})

    def whole(self, total: float | None, text: str, done: float | None = None) -> None:
        """Shows the progress of all parts. Without `done` it is the number of ended parts plus the others'
        shares.
        """
        self._write({"do": "whole", "total": total, "done": done, "text": _short(text)})

    def line(self, text: str) -> None:
        self._write({"do": "line", "text": _short(text)})

    def _write(self, message: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # the drawing process has ended
            os.write(self.pipe, json.dumps(message).encode() + b"\n")


def is_terminal() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


@contextmanager
def screen() -> Iterator[Screen]:
    """Draws on standard error; the bars are removed in the end."""
    reading, writing = os.pipe()
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(reading, writing), daemon=True)
    process.start()
    os.close(reading)
    try:
        yield Screen(writing)
    finally:
        with suppress(BrokenPipeError):
            os.write(writing, b'{"do": "end"}\n')  # others may hold the pipe open
        os.close(writing)
        process.join()


def _short(text: str) -> str:
    return cut(" ".join(text.split()), _LONGEST)


def _serve(reading: int, writing: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker handles interruptions
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.close(writing)
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        draw(pipe, sys.stderr)


def draw(pipe: IO[bytes], file: IO[str], width: int | None = None) -> None:
    """Draws messages of a pipe until `end`, or until it has no writers."""
    from rich.console import Console

    bars = Bars(Console(file=file, width=width, highlight=False, markup=False, emoji=False))
    with selectors.DefaultSelector() as selector, bars.progress:
        selector.register(pipe, selectors.EVENT_READ)
        rest, due = b"", deadline(0)
        while True:
            if selector.select(_SECONDS):
                found = os.read(pipe.fileno(), 65536)
                *lines, rest = (rest + found).split(b"\n")
                if not found or not all(bars.hear(json.loads(line)) for line in lines):
                    break
            if due():
                bars.draw()
                due = deadline(_SECONDS)
        bars.draw()
        bars.clear()


class Bars:
    def __init__(self, console: Any) -> None:
        """Only the bar of all parts is there at first."""
        self.progress = _columns(console)
        self._whole: TaskID | None = None
        self._parts: dict[str, TaskID] = {}
        self._gone = 0
        self._counted = True

    def hear(self, message: dict[str, Any]) -> bool:
        """Further messages follow unless the result is False."""
        match message:
            case {"do": "bar", "key": key, "done": done, "total": total, "text": text}:
                if key not in self._parts:
                    self._parts[key] = self.progress.add_task(escaped(key), total=total, text=escaped(text))
                self.progress.update(self._parts[key], completed=done, total=total, text=escaped(text))
            case {"do": "gone", "key": key}:
                if (task := self._parts.pop(key, None)) is not None:
                    self.progress.remove_task(task)
                self._gone += 1
            case {"do": "whole", "total": total, "done": done, "text": text}:
                if self._whole is None:
                    self._whole = self.progress.add_task(_WHOLE, total=total, text=escaped(text))
                self._counted = done is None
                self.progress.update(self._whole, total=total, completed=done, text=escaped(text))
            case {"do": "line", "text": text}:
                self.progress.console.print(escaped(text), soft_wrap=True)
            case {"do": "end"}:
                return False
        return True

    def draw(self) -> None:
        if self._whole is not None and self._counted:
            tasks = {task.id: task for task in self.progress.tasks}
            under_way = sum(tasks[each].percentage / 100 for each in self._parts.values())
            self.progress.update(self._whole, completed=self._gone + under_way)
        self.progress.refresh()

    def clear(self) -> None:
        for task in self.progress.tasks:
            self.progress.remove_task(task.id)
        self.progress.refresh()


def seconds_left(elapsed: float, done: float, total: float | None) -> float | None:
    """None while the pace is unknown."""
    if total is None or done <= 0:
        return None
    return elapsed * max(total - done, 0.0) / done


def span(seconds: float) -> str:
    """Durations are written as `42 s`, `3 min 05 s`, `1 h 02 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def _columns(console: Any) -> "Progress":
    from rich.progress import BarColumn, Progress, ProgressColumn, Task
    from rich.table import Column
    from rich.text import Text

    class Name(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(task.description or "all", overflow="ellipsis", no_wrap=True)

    class Count(ProgressColumn):
        def render(self, task: Task) -> Text:
            total = "" if task.total is None else f"/{task.total:.0f}"
            return Text(f"{int(task.completed + 1e-6)}{total}", justify="right", no_wrap=True)

    class Said(ProgressColumn):
        def render(self, task: Task) -> Text:
            said = [task.fields["text"]] if task.fields["text"] else []
            if not task.description:
                left = seconds_left(task.elapsed or 0.0, task.completed, task.total)
                said.insert(0, f"{span(task.elapsed or 0.0)}")
                said[0] += f", about {span(left)} left" if left is not None else ""
            return Text("; ".join(said), overflow="ellipsis", no_wrap=True)

    return Progress(
        Name(table_column=Column(max_width=max(console.width * 2 // 5, 10), no_wrap=True)),
        BarColumn(_BAR, table_column=Column(width=_BAR)),
        Count(table_column=Column(justify="right", no_wrap=True)),
        Said(table_column=Column(ratio=1, no_wrap=True)),
        console=console,
        auto_refresh=False,
        transient=True,
        expand=True,
    )

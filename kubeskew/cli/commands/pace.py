"""Shows people how far an exploration has come: a bar on a terminal, else a line every few seconds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kubeskew.apimachinery.clock import deadline
from kubeskew.cli import live
from kubeskew.cli.commands.options import show_progress
from kubeskew.simulation.explore.exploration import Pace, Watcher

_SECONDS = 5.0  # between two lines


class PlainLines:
    """Prints what is found, and every few seconds how far it has come."""

    def __init__(self, due: Callable[[], Callable[[], bool]] = lambda: deadline(_SECONDS)) -> None:
        """Begins to wait for the first line; `due` begins to wait, and returns what says that it is time."""
        self._due = due
        self._is_time = due()

    def say(self, text: str) -> None:
        """Prints a line."""
        show_progress(text)

    def pace(self, pace: Pace) -> None:
        """Prints a line if it is time."""
        if self._is_time():
            show_progress(pace.text)
            self._is_time = self._due()


class Bar:
    """Has one bar drawn, with the rate and what was found so far; findings stay as lines above it."""

    def __init__(self, screen: live.Screen) -> None:
        """Begins without a bar."""
        self._screen = screen

    def say(self, text: str) -> None:
        """Prints a line above the bar."""
        self._screen.line(text)

    def pace(self, pace: Pace) -> None:
        """Draws the bar."""
        self._screen.whole(pace.wanted, pace.text, pace.done)


@contextmanager
def pace_shown() -> Iterator[Watcher]:
    """Gives what shows an exploration."""
    if not live.is_terminal():
        yield PlainLines()
        return
    with live.screen() as screen:
        yield Bar(screen)

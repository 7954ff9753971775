"""Bounds how much is evaluated before other tasks get a turn: less than what an expression may cost.

Cost limits are Kubernetes'; an expression within them can still take seconds. Who must not be held up gives
evaluations some patience, and does them over elsewhere when that is spent: they change nothing.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PER_CHARACTER: Final = 20  # units of cost that take as long as compiling a character


class ImpatienceError(Exception):
    """Patience is spent; what was begun must be done again without."""


class _Allowed(threading.local):
    units: int | None = None


_allowed = _Allowed()


@contextmanager
def patience(units: int) -> Iterator[None]:
    """Let this thread evaluate and compile for so many units of cost; then ImpatienceError is raised."""
    before = _allowed.units
    _allowed.units = units
    try:
        yield
    finally:
        _allowed.units = before


def left() -> int | None:
    """Returns the remaining allowance; None is no limit."""
    return _allowed.units


def spend(units: int) -> None:
    """Count what was done."""
    if _allowed.units is not None:
        _allowed.units -= units


def ask(units: int) -> None:
    """Count what is about to be done. Raises ImpatienceError if it is too much."""
    spend(units)
    if _allowed.units is not None and _allowed.units < 0:
        raise ImpatienceError

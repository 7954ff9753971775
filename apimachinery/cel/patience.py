"""Bounds how much is evaluated at a time, so that other tasks get their turn.

Cost limits are Kubernetes'; an expression within them can still take seconds. A caller that must not be held
up allows an evaluation a number of units. When they are spent it evaluates again elsewhere: evaluations
change nothing.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PER_CHARACTER: Final = 20  # units of cost; compiling one character takes as long


class ImpatienceError(Exception):
    """The allowance is spent; evaluate again without one."""


class _Allowed(threading.local):
    units: int | None = None


_allowed = _Allowed()


@contextmanager
def patience(units: int) -> Iterator[None]:
    """Limits what this thread evaluates and compiles to so many units of cost; beyond them ImpatienceError
    is raised."""
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
    """Counts units of cost that were spent."""
    if _allowed.units is not None:
        _allowed.units -= units


def ask(units: int) -> None:
    """Counts units about to be spent; raises ImpatienceError if the allowance is less."""
    spend(units)
    if _allowed.units is not None and _allowed.units < 0:
        raise ImpatienceError

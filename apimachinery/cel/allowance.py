"""Limits how much is evaluated at a time, so that other tasks can run.

Cost limits are Kubernetes'; an expression within them can still take seconds. A caller that must not be held
up allows an evaluation a number of units. When they are spent it evaluates again elsewhere: evaluations
change nothing.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PER_CHARACTER: Final = 20  # units of cost; compiling one character takes as long


class AllowanceSpentError(Exception):
    """The allowance is spent; evaluate again without one."""


class _Allowance(threading.local):
    units: int | None = None


_allowance = _Allowance()


@contextmanager
def limited_to(units: int) -> Iterator[None]:
    """Limits what this thread evaluates and compiles to `units` of cost; beyond them AllowanceSpentError is
    raised.
    """
    before = _allowance.units
    _allowance.units = units
    try:
        yield
    finally:
        _allowance.units = before


def left() -> int | None:
    """None means no limit."""
    return _allowance.units


def spend(units: int) -> None:
    """Counts units that were spent already; never raises."""
    if _allowance.units is not None:
        _allowance.units -= units


def ask(units: int) -> None:
    """Counts units before they are spent; raises AllowanceSpentError if fewer are left."""
    spend(units)
    if _allowance.units is not None and _allowance.units < 0:
        raise AllowanceSpentError

"""A line of the table."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """`real` and `goal` are those of the design."""

    what: str
    real: str
    goal: str
    measured: str
    set_up: str = ""  # what was measured on, where that is more than its name says

"""Minimizes a finding: fewer faults, then fewer steps of the scenario.

Each trial is a whole run, and the result was seen to fail: nothing is concluded. A trial may take for ever:
with fewer faults (a watch that stands still, and no latency) components may do the same again and again in
hardly any virtual time. It raises OutOfTimeError when the time for all has passed.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

Trial = Callable[[Sequence[T]], bool]


class OutOfTimeError(Exception):
    """The time for minimizing has passed."""


@dataclass(slots=True)
class Budget:
    """Time of all trials together: `over` returns True when it has passed (`clock.deadline`)."""

    over: Callable[[], bool]
    trials: int = 0

    def spend(self) -> None:
        """Counts a trial that begins. Raises OutOfTimeError if there is no time left for it."""
        if self.over():
            raise OutOfTimeError
        self.trials += 1


@dataclass(frozen=True, slots=True)
class Smallest(Generic[T]):
    """The smallest part that was seen to fail. `complete`: nothing can be taken from it, one at a time."""

    items: tuple[T, ...]
    complete: bool


def fewest(items: Sequence[T], fails: Trial[T], budget: Budget) -> Smallest[T]:
    """The part of `items` fails as they do, and is as small as the budget lets it become.

    `items` are known to fail. Delta debugging (Zeller and Hildebrandt, IEEE TSE 2002): halves, then ever
    smaller pieces are taken away; in the end no single item can be.
    """
    left = tuple(items)
    pieces = 2
    try:
        if left and _tried((), fails, budget):
            return Smallest((), complete=True)
        while len(left) > 1:
            smaller = _without_a_piece(left, min(pieces, len(left)), fails, budget)
            if smaller is not None:
                left, pieces = smaller, max(pieces - 1, 2)
            elif pieces >= len(left):
                break
            else:
                pieces *= 2
    except OutOfTimeError:
        return Smallest(left, complete=False)
    return Smallest(left, complete=True)


def _without_a_piece(
    items: tuple[T, ...], pieces: int, fails: Trial[T], budget: Budget
) -> tuple[T, ...] | None:
    """Takes one of the pieces away; None if each is needed."""
    cuts = [len(items) * number // pieces for number in range(pieces + 1)]
    for begin, end in itertools.pairwise(cuts):
        rest = items[:begin] + items[end:]
        if _tried(rest, fails, budget):
            return rest
    return None


def _tried(items: tuple[T, ...], fails: Trial[T], budget: Budget) -> bool:
    budget.spend()
    return fails(items)


def shortest(count: int, fails: Callable[[int], bool], budget: Budget) -> int:
    """Bisects for a number of first steps that fails as all `count` do."""
    low, high = 0, count
    try:
        while high - low > 1:
            middle = (low + high) // 2
            budget.spend()
            if fails(middle):
                high = middle
            else:
                low = middle
    except OutOfTimeError:
        pass
    return high

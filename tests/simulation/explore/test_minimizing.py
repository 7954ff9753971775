"""Minimizing: what is left fails, nothing of it can be left out, and the budget holds."""

import random
from collections.abc import Sequence

import pytest

from kubeskew.simulation.explore.minimizer import Budget, OutOfTimeError, fewest, shortest


def never() -> bool:
    return False


@pytest.mark.parametrize("seed", range(20))
def test_only_what_is_needed_is_left(seed: int):
    """Of many items those alone are left that are needed for the failure, in their order."""
    draws = random.Random(seed)
    items = list(range(draws.randrange(1, 40)))
    needed = set(draws.sample(items, draws.randrange(1, min(5, len(items)) + 1)))

    found = fewest(items, lambda part: needed <= set(part), Budget(never))

    assert (found.items, found.complete) == (tuple(sorted(needed)), True)


def test_nothing_is_needed_of_what_fails_by_itself():
    """One trial shows that it fails without any item."""
    budget = Budget(never)

    found = fewest([1, 2, 3], lambda _: True, budget)

    assert (found.items, found.complete, budget.trials) == ((), True, 1)


def test_the_smallest_seen_is_kept_when_time_runs_out():
    """After the time has passed, what failed last is the answer, marked as incomplete."""
    trials: list[Sequence[int]] = []

    def fails(part: Sequence[int]) -> bool:
        trials.append(part)
        return {3, 60} <= set(part)

    found = fewest(range(64), fails, Budget(lambda: len(trials) == 6))

    assert {3, 60} < set(found.items) < set(range(64))
    assert not found.complete
    assert found.items == next(tuple(part) for part in reversed(trials) if {3, 60} <= set(part))


def test_a_trial_that_is_broken_off_shows_nothing():
    """The answer is what failed before the trial that had no time to end."""

    def fails(part: Sequence[int]) -> bool:
        if len(part) == 2:
            raise OutOfTimeError
        return {1, 2} <= set(part)

    found = fewest([1, 2, 3, 4], fails, Budget(never))

    assert (found.items, found.complete) == ((1, 2, 3, 4), False)


def test_steps_are_bisected():
    """The fewest first steps that fail are found, with as many trials as bisection takes."""
    budget = Budget(never)

    assert shortest(12, lambda count: count >= 5, budget) == 5
    assert budget.trials <= 4
    assert shortest(1, lambda _: False, budget) == 1

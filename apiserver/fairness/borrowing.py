"""Shares out seats among priority levels by what they could use of late.

Source: k8s.io/apiserver/pkg/util/flowcontrol/{apf_controller.go, conc_alloc.go} and
fairqueuing/integrator.go, 1.36 (KEP-1040).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

_SMOOTHING = 0.977  # of each period; half of a demand is forgotten after five minutes
_LEAST_TARGET = 0.001
_EPSILON = 0.0000001

Usage = tuple[int, int]  # requests that run, and that wait


class Occupancy:
    """Counts requests that run and that wait, and for how long there were so many of them.

    Seconds are those of a monotonic clock. A state that lasted for no time at all counts, too.
    """

    __slots__ = ("_alone", "_beside", "_since", "running", "waiting")

    def __init__(self, now: float) -> None:
        self.running = self.waiting = 0
        self._since = now
        self._alone = [0.0]  # seconds in which nothing waited, by what ran
        self._beside: dict[Usage, float] = {}  # seconds in which something waited

    def begin(self, now: float) -> None:
        """Notes that one more runs. This and `end` are what each request costs."""
        running = self.running
        if self.waiting:
            self._pass(now)
        elif now > self._since:
            self._alone[running] += now - self._since
            self._since = now
        self.running = running = running + 1
        if running == len(self._alone):
            self._alone.append(0.0)

    def end(self, now: float) -> None:
        """Notes that one fewer runs."""
        running = self.running
        if self.waiting:
            self._pass(now)
        elif now > self._since:
            self._alone[running] += now - self._since
            self._since = now
        self.running = running - 1

    def wait(self, now: float, change: int = 1) -> None:
        """Notes that one more waits, or one fewer."""
        self._pass(now)
        self.waiting += change
        if self.waiting:
            self._beside.setdefault((self.running, self.waiting), 0.0)

    def _pass(self, now: float) -> None:
        """Adds the time that has passed to what there was."""
        if now <= self._since:
            return
        lasted, self._since = now - self._since, now
        if self.waiting:
            usage = self.running, self.waiting
            self._beside[usage] = self._beside.get(usage, 0.0) + lasted
        else:
            self._alone[self.running] += lasted

    def until(self, now: float) -> Mapping[Usage, float]:
        """Returns the seconds of each state up to now."""
        self._pass(now)
        return {(running, 0): seconds for running, seconds in enumerate(self._alone)} | self._beside

    def restart(self, now: float) -> Mapping[Usage, float]:
        """Returns the seconds of each state up to now, and sums up anew."""
        ended = self.until(now)
        self._alone = [0.0] * (self.running + 1)
        self._beside = {(self.running, self.waiting): 0.0} if self.waiting else {}
        return ended


class Demand(NamedTuple):
    """Says how many seats a level could use: in the last period, and in the long run (`smoothed`)."""

    average: float = 0.0
    deviation: float = 0.0
    most: int = 0
    smoothed: float = 0.0

    def after(self, period: Mapping[Usage, float], times: int = 1) -> "Demand":
        """Returns the demand after a period, or after several that were alike."""
        most = max(map(sum, period))
        seconds = sum(period.values())
        if seconds <= 0:
            return self._replace(most=most)
        average = sum(sum(usage) * share for usage, share in period.items()) / seconds
        squares = sum(sum(usage) ** 2 * share for usage, share in period.items()) / seconds
        deviation = math.sqrt(max(0.0, squares - average * average))
        envelope = average + deviation
        kept = _SMOOTHING**times
        smoothed = max(envelope, kept * self.smoothed + (1 - kept) * envelope)
        return Demand(average, deviation, most, smoothed)


class Bounds(NamedTuple):
    """Holds the seats that a level has by its shares, never lends, and has at most."""

    nominal: int
    lower: int
    upper: int
    exempt: bool = False  # all get a seat at once

    def least(self, demand: Demand) -> int:
        """Returns the seats that a level keeps while it has used them of late."""
        return max(self.lower, demand.most if self.exempt else min(self.nominal, demand.most))


class Allotment(NamedTuple):
    """Says how many seats each level has for the next period, and what it was after."""

    seats: Mapping[str, int]
    targets: Mapping[str, float]
    fair_share: float  # what of their target levels get that no bound holds


def allot(levels: Sequence[tuple[str, Bounds, Demand]], old: Mapping[str, int]) -> Allotment:
    """Shares out the sum of nominal seats: what exempt levels use first, then the others by demand.

    Where the allocation is impossible, each keeps what it has (`old`).
    """
    limited = [(name, bounds, demand) for name, bounds, demand in levels if not bounds.exempt]
    seats = {name: bounds.least(demand) for name, bounds, demand in levels if bounds.exempt}
    total = sum(bounds.nominal for _, bounds, _ in levels)
    left = total - sum(seats.values())
    least = {name: bounds.least(demand) for name, bounds, demand in limited}
    targets = {name: max(float(least[name]), demand.smoothed) for name, _, demand in limited}
    # An exempt level shows the target of the level that upstream happens to look at first.
    targets.update(dict.fromkeys(seats, next(iter(targets.values()), 0.0)))
    lower = sum(bounds.lower for _, bounds, _ in limited)
    lowest = sum(least.values())
    if left <= lower:
        seats.update((name, bounds.lower) for name, bounds, _ in limited)
        return Allotment(seats, targets, 0.0)
    if left <= lowest:
        share = (left - lower) / (lowest - lower)
        for name, bounds, _ in limited:
            seats[name] = bounds.lower + _rounded((least[name] - bounds.lower) * share)
        return Allotment(seats, targets, 0.0)
    wanted = [Wanted(targets[name], least[name], bounds.upper) for name, bounds, _ in limited]
    try:
        allocated, fair = allocation(total, wanted)
    except ValueError:
        seats.update((name, old.get(name, bounds.nominal)) for name, bounds, _ in limited)
        return Allotment(seats, targets, 0.0)
    seats.update((name, _rounded(found)) for (name, _, _), found in zip(limited, allocated, strict=True))
    return Allotment(seats, targets, fair)


class Wanted(NamedTuple):
    """Holds what a level should get at best, and within what bounds."""

    target: float
    lower: float
    upper: float


def allocation(total: int, wanted: Sequence[Wanted]) -> tuple[list[float], float]:
    """Returns allocations that sum up to `total`, and the fair share of targets by which they were found.

    Each is that share of its target, or the bound that holds it from there. Raises ValueError where the
    bounds leave no allocation.
    """
    low, high = sum(one.lower for one in wanted), sum(one.upper for one in wanted)
    if total < 0 or low - total > _EPSILON or total - high > _EPSILON:
        raise ValueError(f"{total} seats do not lie between {low} and {high}")
    if total == 0:
        return [0.0] * len(wanted), 0.0
    targets = [max(one.target, _LEAST_TARGET) for one in wanted]
    lowest = [one.lower / target for one, target in zip(wanted, targets, strict=True)]
    highest = [one.upper / target for one, target in zip(wanted, targets, strict=True)]
    if low - total > -_EPSILON:
        return [one.lower for one in wanted], min(lowest)
    if total - high > -_EPSILON:
        return [one.upper for one in wanted], max(highest)
    share = total / sum(targets)
    if max(lowest) > share or share > min(highest):
        share = _bounded_share(total, low, targets, lowest, highest)
    return [
        max(one.lower, min(one.upper, share * target)) for one, target in zip(wanted, targets, strict=True)
    ], share


def _bounded_share(
    total: float,
    reached: float,
    targets: Sequence[float],
    lowest: Sequence[float],
    highest: Sequence[float],
) -> float:
    """Returns the share by which allocations sum up to `total`, going up from bound to bound."""
    share, growing = min(lowest), 0.0  # the targets of those that no bound holds at this share
    for bound, change in _steps(targets, lowest, highest):
        if growing > 0 and reached + (bound - share) * growing >= total:
            return share + (total - reached) / growing
        reached += (bound - share) * growing
        share, growing = bound, growing + change
    return share


def _steps(
    targets: Sequence[float], lowest: Sequence[float], highest: Sequence[float]
) -> Iterator[tuple[float, float]]:
    """Yields the shares at which an allocation leaves its lower bound or reaches its upper one."""
    steps = [(bound, target) for bound, target in zip(lowest, targets, strict=True)]
    steps += [(bound, -target) for bound, target in zip(highest, targets, strict=True)]
    yield from sorted(steps)


def _rounded(value: float) -> int:
    """Returns a number rounded as Go's math.Round does, half away from zero."""
    return math.floor(value + 0.5)

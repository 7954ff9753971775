"""Priority levels: each runs as many requests at once as it has seats, queues the others, and borrows seats.

Every ten seconds the seats are shared out again by what the levels could use of late. Every request takes one
seat; upstream also weighs lists and what a write means for watchers.

Sources: k8s.io/apiserver/pkg/util/flowcontrol/{apf_controller.go, conc_alloc.go} and
fairqueuing/integrator.go, 1.36 (KEP-1040); pkg/util/flowcontrol/apf_controller.go and fairqueuing/queueset,
1.36.
"""

import asyncio
import hashlib
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kubeskew.apimachinery.objects import Object

_SMOOTHING = 0.977  # of each period; half of a demand is forgotten after five minutes
_LEAST_TARGET = 0.001
_EPSILON = 0.0000001

Usage = tuple[int, int]  # requests that run, and that wait
_WAIT_SECONDS = 15.0  # a quarter of a request's time
_PERIOD_SECONDS = 10.0  # after which seats are shared out by demand again


class Occupancy:
    """Counts requests that run and that wait, and how long each pair of numbers lasted.

    Seconds are those of a monotonic clock. A state that lasted for no time at all counts, too.


    """

    __slots__ = ("_queued", "_since", "_unqueued", "running", "waiting")

    def __init__(self, now: float) -> None:
        self.running = self.waiting = 0
        self._since = now
        self._unqueued = [0.0]  # seconds in which nothing waited, by what ran
        self._queued: dict[Usage, float] = {}  # seconds in which something waited

    def begin(self, now: float) -> None:
        """Runs for each request, as `end` does: both must be cheap."""
        running = self.running
        if self.waiting:
            self._pass(now)
        elif now > self._since:
            self._unqueued[running] += now - self._since
            self._since = now
        self.running = running = running + 1
        if running == len(self._unqueued):
            self._unqueued.append(0.0)

    def end(self, now: float) -> None:
        running = self.running
        if self.waiting:
            self._pass(now)
        elif now > self._since:
            self._unqueued[running] += now - self._since
            self._since = now
        self.running = running - 1

    def wait(self, now: float, change: int = 1) -> None:
        """`change` is 1 or -1."""
        self._pass(now)
        self.waiting += change
        if self.waiting:
            self._queued.setdefault((self.running, self.waiting), 0.0)

    def _pass(self, now: float) -> None:
        if now <= self._since:
            return
        lasted, self._since = now - self._since, now
        if self.waiting:
            usage = self.running, self.waiting
            self._queued[usage] = self._queued.get(usage, 0.0) + lasted
        else:
            self._unqueued[self.running] += lasted

    def until(self, now: float) -> Mapping[Usage, float]:
        """Values are the seconds that each state has lasted up to now."""
        self._pass(now)
        return {(running, 0): seconds for running, seconds in enumerate(self._unqueued)} | self._queued

    def restart(self, now: float) -> Mapping[Usage, float]:
        """Does as `until`, and begins the sums again at zero."""
        ended = self.until(now)
        self._unqueued = [0.0] * (self.running + 1)
        self._queued = {(self.running, self.waiting): 0.0} if self.waiting else {}
        return ended


class Demand(NamedTuple):
    """`average`, `deviation` and `most` are seats of the last period, `smoothed` those of the long run."""

    average: float = 0.0
    deviation: float = 0.0
    most: int = 0
    smoothed: float = 0.0

    def after(self, period: Mapping[Usage, float], times: int = 1) -> "Demand":
        """Smooths over one period, or over `times` that were alike."""
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
    """A level has `nominal` seats by its shares, never lends `lower` of them, and has at most `upper`."""

    nominal: int
    lower: int
    upper: int
    exempt: bool = False  # all get a seat at once

    def least(self, demand: Demand) -> int:
        return max(self.lower, demand.most if self.exempt else min(self.nominal, demand.most))


class Allotment(NamedTuple):
    """Levels get `seats` for the next period; `targets` are those that they should have by their demand."""

    seats: Mapping[str, int]
    targets: Mapping[str, float]
    fair_share: float  # of their targets, for levels that no bound holds


def allot(levels: Sequence[tuple[str, Bounds, Demand]], old: Mapping[str, int]) -> Allotment:
    """Shares out the sum of nominal seats: exempt levels come first, then the others by demand.

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
    target: float
    lower: float
    upper: float


def allocation(total: int, wanted: Sequence[Wanted]) -> tuple[list[float], float]:
    """Finds allocations that sum up to `total`, and the fair share of targets that leads to them.

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
    """Goes up from bound to bound until allocations sum up to `total`."""
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
    """At these shares an allocation leaves its lower bound or reaches its upper one."""
    steps = [(bound, target) for bound, target in zip(lowest, targets, strict=True)]
    steps += [(bound, -target) for bound, target in zip(highest, targets, strict=True)]
    yield from sorted(steps)


def _rounded(value: float) -> int:
    """Rounds half away from zero, as Go's math.Round does."""
    return math.floor(value + 0.5)


class RejectedError(Exception):
    """The request gets no seat and has no room to wait for one: 429. `reason` is as in the metric."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class PriorityLevel:
    name: str
    bounds: Bounds
    occupancy: Occupancy
    limit: int = 0  # its seats in this period
    denominator: int = 1  # by which upstream's figures of usage are divided
    demand: Demand = field(default_factory=Demand)
    queues: list[deque[asyncio.Future[None]]] = field(default_factory=list)
    hand: int = 0
    length: int = 0
    next_queue: int = 0

    @property
    def room(self) -> int:
        """At least one, even without queues."""
        return max(1, self.length) * max(1, len(self.queues))


PeriodEnded = Callable[[PriorityLevel, Mapping[Usage, float]], None]


class PriorityLevels:
    """Shares `total` seats among the levels of a server.

    `now` returns seconds of a monotonic clock. `ended` is called with a level and its usage in a period that
    has ended, before the level gets its seats for the next one.


    """

    def __init__(self, total: int, now: Callable[[], float], ended: PeriodEnded | None = None) -> None:
        self._total = total
        self._now = now
        self._ended = ended
        self._due = now() + _PERIOD_SECONDS
        self.levels: dict[str, PriorityLevel] = {}
        self.allotment = Allotment({}, {}, 0.0)

    @property
    def running_most(self) -> int:
        return sum(level.bounds.nominal for level in self.levels.values())

    @property
    def waiting_most(self) -> int:
        return sum(level.length * len(level.queues) for level in self.levels.values())

    def configure(self, objects: Mapping[str, Object]) -> None:
        """Takes over the stored levels; requests that run or wait stay."""
        now = self._now()
        shares = {name: _shares(obj) for name, obj in objects.items()}
        whole = sum(shares.values()) or 1
        found: dict[str, PriorityLevel] = {}
        for name, obj in sorted(objects.items()):
            bounds = _bounds(obj["spec"], -(-self._total * shares[name] // whole), self._total)
            level = self.levels.get(name)
            if level is None:
                initial = bounds.nominal - (bounds.nominal - bounds.lower) // 2
                level = PriorityLevel(name, bounds, Occupancy(now), limit=initial)
            level.bounds = bounds
            _set_queues(level, obj["spec"])
            found[name] = level
        self.levels = found
        self._adjust(now)

    def look(self) -> Mapping[str, PriorityLevel]:
        self._catch_up(self._now())
        return self.levels

    def seat(self, name: str, now: float) -> PriorityLevel | None:
        if now >= self._due:
            self._catch_up(now)
        level = self.levels[name]
        if level.bounds.exempt or _has_seat(level):
            level.occupancy.begin(now)
            return level
        return None

    async def enter(self, name: str, flow: str) -> PriorityLevel:
        """Waits for a seat if the level has queues; raises RejectedError."""
        seated = self.seat(name, self._now())
        if seated is not None:
            return seated
        level = self.levels[name]
        if not level.queues:
            raise RejectedError("concurrency-limit")
        queue = min((level.queues[number] for number in _hand(level, flow)), key=len)
        if len(queue) >= level.length:
            raise RejectedError("queue-full")
        seat: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(seat)
        level.occupancy.wait(self._now())
        try:
            await self._turn(seat)
        except TimeoutError:
            raise RejectedError("time-out") from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if seat.cancelled() and task is not None and not task.cancelling():
                raise RejectedError("cancelled") from None  # its level has no queues any more
            if seat.done() and not seat.cancelled():  # the client left just when its turn came
                self.leave(level, self._now())
            raise
        finally:
            if not seat.done() or seat.cancelled():
                level.occupancy.wait(self._now(), -1)
                seat.cancel()
            if seat in queue:
                queue.remove(seat)
        return level

    async def _turn(self, seat: asyncio.Future[None]) -> None:
        """Raises TimeoutError after _WAIT_SECONDS.

        No other request may come or go meanwhile, so waiting requests see to the seats of the next period.
        """
        begun = self._now()
        while not seat.done():
            now = self._now()
            left = begun + _WAIT_SECONDS - now
            if left <= 0:
                raise TimeoutError
            await asyncio.wait([seat], timeout=min(left, max(0.0, self._due - now)))
            self._catch_up(self._now())
        await seat

    def leave(self, level: PriorityLevel, now: float) -> None:
        """Waiting requests get the seat: queues take turns."""
        level.occupancy.end(now)
        if level.occupancy.waiting:
            self._wake(level, now)

    def _wake(self, level: PriorityLevel, now: float) -> None:
        while level.occupancy.waiting and _has_seat(level) and _next(level):
            level.occupancy.wait(now, -1)
            level.occupancy.begin(now)

    def _catch_up(self, now: float) -> None:
        """Shares out the seats for each period that has ended; nothing has changed in all but the first."""
        if now < self._due:
            return
        self._adjust(self._due)
        missed = int((now - self._due) // _PERIOD_SECONDS)
        if missed:
            self._due += missed * _PERIOD_SECONDS
            self._adjust(self._due, missed)
        self._due += _PERIOD_SECONDS

    def _adjust(self, now: float, periods: int = 1) -> None:
        for level in self.levels.values():
            usage = level.occupancy.restart(now)
            if self._ended is not None:
                self._ended(level, usage)
            level.demand = level.demand.after(usage, periods)
        old = {name: level.limit for name, level in self.levels.items()}
        self.allotment = allot(
            [(name, level.bounds, level.demand) for name, level in self.levels.items()], old
        )
        for name, seats in self.allotment.seats.items():
            level = self.levels[name]
            level.limit, level.denominator = seats, seats or max(1, (self._total + 5) // 10)
            if level.occupancy.waiting:
                self._wake(level, now)


def _has_seat(level: PriorityLevel) -> bool:
    """A level without running requests has a seat in any case."""
    return level.occupancy.running < (level.limit or 1)


def _next(level: PriorityLevel) -> bool:
    """False if no request waits."""
    count = len(level.queues)
    for step in range(count):
        queue = level.queues[(level.next_queue + step) % count]
        while queue:
            seat = queue.popleft()
            if not seat.done():
                level.next_queue = (level.next_queue + step + 1) % count
                seat.set_result(None)
                return True
    return False


def _common(spec: Object) -> dict[str, Any]:
    return spec.get("limited") or spec.get("exempt") or {}


def _shares(obj: Object) -> int:
    common = _common(obj["spec"])
    return int(common.get("nominalConcurrencyShares") or common.get("assuredConcurrencyShares") or 0)


def _share(seats: int, percent: int) -> int:
    """Rounded as Go's math.Round does."""
    return (seats * percent + 50) // 100


def _bounds(spec: Object, seats: int, total: int) -> Bounds:
    """`seats` are those that the level has by its shares, `total` those of all levels."""
    common = _common(spec)
    limit = common.get("borrowingLimitPercent")
    borrowed = total if limit is None else _share(seats, limit)
    lower = seats - _share(seats, int(common.get("lendablePercent") or 0))
    return Bounds(seats, lower, seats + borrowed, spec.get("type") == "Exempt")


def _set_queues(level: PriorityLevel, spec: Object) -> None:
    """Waiting requests go over to the new queues; without queues they are rejected."""
    queuing = ((spec.get("limited") or {}).get("limitResponse") or {}).get("queuing") or {}
    level.hand, level.length = int(queuing.get("handSize") or 0), int(queuing.get("queueLengthLimit") or 0)
    if len(level.queues) != int(queuing.get("queues") or 0):
        waiting = [seat for queue in level.queues for seat in queue]
        level.queues = [deque() for _ in range(int(queuing.get("queues") or 0))]
        for position, seat in enumerate(waiting):
            if level.queues:
                level.queues[position % len(level.queues)].append(seat)
            else:
                seat.cancel()


def _hand(level: PriorityLevel, flow: str) -> list[int]:
    """A flow may always join the same queues, which are dealt like cards."""
    value = int.from_bytes(hashlib.sha256(flow.encode()).digest()[:8], "little")
    count, hand = len(level.queues), []
    left = list(range(count)) if count <= 1024 else list(range(1024))
    for _ in range(min(level.hand, len(left))):
        value, position = divmod(value, len(left))
        hand.append(left.pop(position))
    return hand

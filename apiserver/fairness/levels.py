"""Seats requests: a priority level runs so many at once, and queues the others.

How many seats a level has follows every ten seconds from what the levels could use of late (`borrowing.py`).
Every request takes one seat; upstream also weighs lists and what a write means for watchers. Source:
pkg/util/flowcontrol/apf_controller.go and fairqueuing/queueset, 1.36.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.fairness.borrowing import Allotment, Bounds, Demand, Occupancy, Usage, allot

_WAIT_SECONDS = 15.0  # a quarter of a request's time
_PERIOD_SECONDS = 10.0  # after which seats are shared out by demand again


class RejectedError(Exception):
    """No seat, and no room to wait for one: 429. `reason` as in the metric."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class PriorityLevel:
    """A priority level at work."""

    name: str
    bounds: Bounds
    occupancy: Occupancy
    limit: int = 0  # the seats it has now
    denominator: int = 1  # by which upstream's figures of usage are divided
    demand: Demand = field(default_factory=Demand)
    queues: list[deque[asyncio.Future[None]]] = field(default_factory=list)
    hand: int = 0
    length: int = 0
    next_queue: int = 0

    @property
    def room(self) -> int:
        """Returns how many requests its queues hold, at least one."""
        return max(1, self.length) * max(1, len(self.queues))


PeriodEnded = Callable[[PriorityLevel, Mapping[Usage, float]], None]


class PriorityLevels:
    """The levels of a server, which share `total` seats.

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
        """Returns how many requests run at most by the levels' shares."""
        return sum(level.bounds.nominal for level in self.levels.values())

    @property
    def waiting_most(self) -> int:
        """Returns how many requests wait at most, in all queues."""
        return sum(level.length * len(level.queues) for level in self.levels.values())

    def configure(self, objects: Mapping[str, Object]) -> None:
        """Take over what the stored levels say; who runs or waits stays."""
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
        """Returns the levels, with the seats that they have now."""
        self._catch_up(self._now())
        return self.levels

    def seat(self, name: str, now: float) -> PriorityLevel | None:
        """Takes a seat if there is one at once."""
        if now >= self._due:
            self._catch_up(now)
        level = self.levels[name]
        if level.bounds.exempt or _has_seat(level):
            level.occupancy.begin(now)
            return level
        return None

    async def enter(self, name: str, flow: str) -> PriorityLevel:
        """Take a seat, waiting for one if that is allowed; raises RejectedError."""
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
                raise RejectedError("cancelled") from None  # its level lets nobody wait any more
            if seat.done() and not seat.cancelled():  # the client went just when its turn came
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
        """Waits until it is the turn of a request, or raises TimeoutError.

        Nobody else may come or go meanwhile, so whoever waits sees to the seats of the next period.
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
        """Give the seat back, to whoever has waited: queues take turns."""
        level.occupancy.end(now)
        if level.occupancy.waiting:
            self._wake(level, now)

    def _wake(self, level: PriorityLevel, now: float) -> None:
        while level.occupancy.waiting and _has_seat(level) and _next(level):
            level.occupancy.wait(now, -1)
            level.occupancy.begin(now)

    def _catch_up(self, now: float) -> None:
        """Shares out the seats for every period that has ended; nothing has changed in all but the first."""
        if now < self._due:
            return
        self._adjust(self._due)
        missed = int((now - self._due) // _PERIOD_SECONDS)
        if missed:
            self._due += missed * _PERIOD_SECONDS
            self._adjust(self._due, missed)
        self._due += _PERIOD_SECONDS

    def _adjust(self, now: float, periods: int = 1) -> None:
        """Shares out the seats by what the levels used up to now."""
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
    """Returns whether one more may run; where nothing runs, one may in any case."""
    return level.occupancy.running < (level.limit or 1)


def _next(level: PriorityLevel) -> bool:
    """Gives a seat to the request whose turn it is; returns whether one waits."""
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
    """Returns what limited and exempt levels have in common."""
    return spec.get("limited") or spec.get("exempt") or {}


def _shares(obj: Object) -> int:
    common = _common(obj["spec"])
    return int(common.get("nominalConcurrencyShares") or common.get("assuredConcurrencyShares") or 0)


def _share(seats: int, percent: int) -> int:
    """Returns so many percent of seats, rounded as Go's math.Round does."""
    return (seats * percent + 50) // 100


def _bounds(spec: Object, seats: int, total: int) -> Bounds:
    """Returns the bounds of a level that has so many seats by its shares, of all."""
    common = _common(spec)
    limit = common.get("borrowingLimitPercent")
    borrowed = total if limit is None else _share(seats, limit)
    lower = seats - _share(seats, int(common.get("lendablePercent") or 0))
    return Bounds(seats, lower, seats + borrowed, spec.get("type") == "Exempt")


def _set_queues(level: PriorityLevel, spec: Object) -> None:
    """Gives a level its queues; who waits goes over to them, or is sent away where there are none."""
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
    """Returns the queues that a flow may join: always the same ones, dealt like cards."""
    value = int.from_bytes(hashlib.sha256(flow.encode()).digest()[:8], "little")
    count, hand = len(level.queues), []
    left = list(range(count)) if count <= 1024 else list(range(1024))
    for _ in range(min(level.hand, len(left))):
        value, position = divmod(value, len(left))
        hand.append(left.pop(position))
    return hand

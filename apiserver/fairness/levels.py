"""Seats requests: a priority level runs so many at once, and queues the others.

A level may use seats that others lend and do not need. Every request takes one seat; upstream also weighs
lists and what a write means for watchers. Source: pkg/util/flowcontrol/fairqueuing/queueset, 1.36.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.objects import Object

_WAIT_SECONDS = 15.0  # a quarter of a request's time


class RejectedError(Exception):
    """No seat, and no room to wait for one: 429. `reason` as in the metric."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class PriorityLevel:
    """A priority level at work."""

    name: str
    exempt: bool
    seats: int
    kept: int  # of them never lent
    most: int | None = None  # seats, borrowed ones included; None is no limit
    queues: list[deque[asyncio.Future[None]]] = field(default_factory=list)
    hand: int = 0
    length: int = 0
    running: int = 0
    waiting: int = 0  # requests woken but not yet resumed included
    next_queue: int = 0


class PriorityLevels:
    """The levels of a server; `total` seats are shared out by their nominal shares."""

    def __init__(self, total: int) -> None:
        self._total = total
        self.levels: dict[str, PriorityLevel] = {}
        self._waiting = 0  # in all levels

    def configure(self, objects: Mapping[str, Object]) -> None:
        """Take over what the stored levels say; who runs or waits stays."""
        shares = {name: _shares(obj) for name, obj in objects.items()}
        whole = sum(shares.values()) or 1
        found: dict[str, PriorityLevel] = {}
        for name, obj in objects.items():
            seats = -(-self._total * shares[name] // whole)
            found[name] = _level(name, obj["spec"], seats, self.levels.get(name))
        self.levels = found

    def limits(self) -> list[tuple[str, int, int, int, bool]]:
        """Returns of each level the seats it has by its shares, those it keeps, those it has at most, and
        whether nobody waits for one.
        """
        return [
            (
                level.name,
                level.seats,
                level.kept,
                level.seats + self._total if level.most is None else level.most,
                level.exempt,
            )
            for level in self.levels.values()
        ]

    def seat(self, name: str) -> PriorityLevel | None:
        """Takes a seat if there is one at once."""
        level = self.levels[name]
        if level.exempt or self._has_seat(level):
            level.running += 1
            return level
        return None

    async def enter(self, name: str, flow: str) -> PriorityLevel:
        """Take a seat, waiting for one if that is allowed; raises RejectedError."""
        seated = self.seat(name)
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
        level.waiting += 1
        self._waiting += 1
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await seat
        except TimeoutError:
            raise RejectedError("time-out") from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if seat.cancelled() and task is not None and not task.cancelling():
                raise RejectedError("cancelled") from None  # its level lets nobody wait any more
            if seat.done() and not seat.cancelled():  # the client went just when its turn came
                self.leave(level)
            raise
        finally:
            level.waiting -= 1
            self._waiting -= 1
            if seat in queue:
                queue.remove(seat)
        return level

    def leave(self, level: PriorityLevel) -> None:
        """Give the seat back, to whoever has waited: queues take turns."""
        level.running -= 1
        if not self._waiting:
            return
        for waiting in (level, *(other for other in self.levels.values() if other is not level)):
            while waiting.waiting and self._has_seat(waiting):
                if not _wake(waiting):
                    break

    def _has_seat(self, level: PriorityLevel) -> bool:
        if level.running < level.seats:
            return True
        if level.most is not None and level.running >= level.most:
            return False
        others = sum(
            max(other.running, other.kept)
            for other in self.levels.values()
            if other is not level and not other.exempt
        )
        return level.running + others < self._total


def _wake(level: PriorityLevel) -> bool:
    count = len(level.queues)
    for step in range(count):
        queue = level.queues[(level.next_queue + step) % count]
        while queue:
            seat = queue.popleft()
            if not seat.done():
                level.next_queue = (level.next_queue + step + 1) % count
                level.running += 1
                seat.set_result(None)
                return True
    return False


def _shares(obj: Object) -> int:
    limited = obj["spec"].get("limited") or {}
    return int(limited.get("nominalConcurrencyShares") or limited.get("assuredConcurrencyShares") or 0)


def _share(seats: int, percent: int) -> int:
    """Returns so many percent of seats, rounded as Go's math.Round does."""
    return (seats * percent + 50) // 100


def _level(name: str, spec: Object, seats: int, old: PriorityLevel | None) -> PriorityLevel:
    limited: dict[str, Any] = spec.get("limited") or {}
    queuing = (limited.get("limitResponse") or {}).get("queuing") or {}
    kept = seats - _share(seats, int(limited.get("lendablePercent") or 0))
    level = old or PriorityLevel(name, False, seats, kept)
    level.exempt, level.seats, level.kept = spec.get("type") == "Exempt", seats, kept
    limit = limited.get("borrowingLimitPercent")
    level.most = None if limit is None else seats + _share(seats, limit)
    level.hand, level.length = int(queuing.get("handSize") or 0), int(queuing.get("queueLengthLimit") or 0)
    if len(level.queues) != int(queuing.get("queues") or 0):
        waiting = [seat for queue in level.queues for seat in queue]
        level.queues = [deque() for _ in range(int(queuing.get("queues") or 0))]
        for position, seat in enumerate(waiting):
            if level.queues:
                level.queues[position % len(level.queues)].append(seat)
            else:
                seat.cancel()
    return level


def _hand(level: PriorityLevel, flow: str) -> list[int]:
    """Returns the queues that a flow may join: always the same ones, dealt like cards."""
    value = int.from_bytes(hashlib.sha256(flow.encode()).digest()[:8], "little")
    count, hand = len(level.queues), []
    left = list(range(count)) if count <= 1024 else list(range(1024))
    for _ in range(min(level.hand, len(left))):
        value, position = divmod(value, len(left))
        hand.append(left.pop(position))
    return hand

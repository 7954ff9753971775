"""Decides at each call which faults fire: counters and draws, without a clock or a source of chance.

A draw depends on the fault's seed, its id and the number of the call alone. So a fault that is taken away
shifts nothing of the others, and a component that was restarted draws on as if it had not been.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from kubeskew.apimachinery.faults.fault import Call, Fault, Kind

_ENDING = (Kind.ANSWER, Kind.DROP, Kind.CRASH, Kind.OUTAGE)


@dataclass(slots=True)
class Progress:
    """Counts the calls that a fault selected and those at which it fired; `since` is the time of the first
    firing."""

    matched: int = 0
    fired: int = 0
    since: float | None = None  # seconds since 1970


class Firing(NamedTuple):
    """A fault that fires at a call. `delay` is drawn, in seconds; `call` is empty if none was needed."""

    fault: Fault
    progress: Progress
    call: Call | None = None
    delay: float = 0.0

    def __str__(self) -> str:
        if self.call is None:
            return f"{self.fault.id}: {self.fault.effect}"
        return f"{self.fault.id}: {self.fault.effect}: {self.call} (call {self.progress.matched})"


def draw(seed: int, name: str, number: int, purpose: str) -> float:
    """A number in [0, 1), for the same four arguments the same in every process."""
    digest = blake2b(f"{seed}/{name}/{number}/{purpose}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53


class Decider:
    """Holds the faults of one component and how far each has come."""

    def __init__(self, faults: Iterable[tuple[Fault, Progress]], seen: Counter[str] | None = None) -> None:
        self.faults = [*faults]
        self.seen: Counter[str] = Counter() if seen is None else seen  # calls by verb and resource
        self.hears_events = any(fault.where.event for fault, _ in self.faults)
        self.counted: list[tuple[Fault, Progress]] = []  # of the last call, where the number of calls matters
        self._outages = [pair for pair in self.faults if pair[0].effect.kind is Kind.OUTAGE]

    def begin(self, now: float) -> list[Firing]:
        """Fires the faults that need no call."""
        return [
            self._fire(fault, progress, now)
            for fault, progress in self.faults
            if fault.at_once and not progress.fired
        ]

    def decide(self, call: Call, now: float) -> list[Firing]:
        """Fires faults in the order of the plan.

        Delays add up; of the faults that end a call only the first fires.
        """
        self.seen[call.kind] += 1
        firings: list[Firing] = []
        ended = False
        self.counted = []
        for fault, progress in self.faults:
            if fault.at_once or not fault.where.selects(call):
                continue
            progress.matched += 1
            if fault.when.counts:
                self.counted.append((fault, progress))
            ends = fault.effect.kind in _ENDING
            if _is_due(fault, progress, now) and not (ends and ended):
                ended = ended or ends
                firings.append(self._fire(fault, progress, now, call))
        return firings

    @staticmethod
    def _fire(fault: Fault, progress: Progress, now: float, call: Call | None = None) -> Firing:
        progress.fired += 1
        if progress.since is None:
            progress.since = now
        low, high = fault.effect.delay
        share = 0.0
        if low != high:
            share = draw(fault.when.seed, fault.id, progress.matched, "delay")
        return Firing(fault, progress, call, low + (high - low) * share)

    def outage(self, now: float) -> Fault | None:
        """None while no outage lasts."""
        for fault, progress in self._outages:
            if progress.since is not None and remaining(fault, progress, now) != 0.0:
                return fault
        return None


def remaining(fault: Fault, progress: Progress, now: float) -> float | None:
    """Seconds that a fault which has fired goes on; None if only a change of the plan ends it."""
    if fault.when.seconds is None or progress.since is None:
        return None
    return max(0.0, progress.since + fault.when.seconds - now)


def _is_due(fault: Fault, progress: Progress, now: float) -> bool:
    """`progress` has counted the call already."""
    when, number = fault.when, progress.matched
    if number < when.nth or (number - when.nth) % when.every:
        return False
    if when.times is not None and progress.fired >= when.times:
        return False
    if when.seconds is not None and remaining(fault, progress, now) == 0.0:
        return False
    return when.probability >= 1.0 or draw(when.seed, fault.id, number, "probability") < when.probability

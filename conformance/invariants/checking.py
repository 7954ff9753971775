"""Checks the invariants over a log."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from kubeskew.conformance.evidence.log import Logged, Write
from kubeskew.conformance.invariants.cluster import Cluster
from kubeskew.conformance.invariants.invariant import Evidence, Invariant
from kubeskew.conformance.invariants.settling import is_heartbeat
from kubeskew.conformance.invariants.violation import Violation


class Checker:
    """Judges a run as its log grows: `see` each entry, then `finish` once."""

    def __init__(self, invariants: Sequence[Invariant]) -> None:
        self.cluster = Cluster()
        self._invariants = invariants

    def see(self, entry: Logged) -> Iterator[Violation]:
        """Yields what an entry of the log broke."""
        change = self.cluster.apply(entry)
        if change is None or not isinstance(entry, Write):
            return
        for invariant in self._invariants:
            for message in invariant.see(change, self.cluster):
                yield Violation(invariant.code, invariant.name, message, entry.revision, entry.time)

    def finish(self, evidence: Evidence, *, at_rest: bool) -> Iterator[Violation]:
        """Yields what does not hold at the end."""
        for invariant in self._invariants:
            for message in invariant.at_end(self.cluster, evidence, at_rest=at_rest):
                yield Violation(
                    *(invariant.code, invariant.name, message),
                    *(self.cluster.revision, self.cluster.time),
                )


def check(
    log: Iterable[Logged], invariants: Sequence[Invariant], evidence: Evidence, *, at_rest: bool
) -> list[Violation]:
    """Returns every violation in a log, in the order in which it came about."""
    checker = Checker(invariants)
    found = [violation for entry in log for violation in checker.see(entry)]
    return [*found, *checker.finish(evidence, at_rest=at_rest)]


def last_change(log: Iterable[Logged]) -> str:
    """Returns the time of the last write that is no heartbeat; empty if there is none."""
    time = ""
    for entry in log:
        if isinstance(entry, Write) and not is_heartbeat(entry):
            time = entry.time
    return time


def is_at_rest(log: Iterable[Logged], now: datetime, seconds: float) -> bool:
    """Returns whether nothing but heartbeats has been written for so long."""
    last = last_change(log)
    return not last or now - datetime.fromisoformat(last) >= timedelta(seconds=seconds)

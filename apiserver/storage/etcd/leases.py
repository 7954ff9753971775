"""Leases: which there are, whose keys they hold, and when they end (server/lease/lessor.go, 3.6).

The backing keeps them, with their renewals, which all servers share: each counts their time by itself, from
the last renewal, and revokes a lease only if nobody has renewed it since. A server that starts gives each its
whole time again, as etcd's new leader does.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage.etcd.backing import LeaseRecord
from kubeskew.apiserver.storage.etcd.wire import Change, State

MAX_TTL = 9_000_000_000
MIN_TTL = 2  # seconds; of etcd's election timeout of one second


class Lease:
    __slots__ = ("expiry", "id", "renewals", "ttl")

    def __init__(self, number: int) -> None:
        self.id = number
        self.ttl = 0
        self.renewals = 0
        self.expiry = 0.0


class Leases:
    """The leases that one server knows; others may grant, renew and revoke them, too."""

    def __init__(self, clock: Clock, granted: Iterable[LeaseRecord], states: Iterable[State]) -> None:
        self._clock = clock
        self.by_id: dict[int, Lease] = {}
        self._keys: dict[int, dict[bytes, None]] = {}  # of all leases that states name
        self._expiries: list[tuple[float, int]] = []  # a heap; entries of older expiries are skipped
        for record in granted:
            self.add(record)
        self.attach_all(states)

    def attach_all(self, states: Iterable[State]) -> None:
        """Leases have the keys of these states, and no others."""
        self._keys.clear()
        for state in states:
            self._attach(state)

    def keys(self, number: int) -> Sequence[bytes]:
        """The keys of a lease, sorted."""
        return sorted(self._keys.get(number, ()))

    def add(self, record: LeaseRecord) -> Lease:
        """Takes a lease as it was granted or renewed last."""
        lease = self.by_id.get(record.id) or self.by_id.setdefault(record.id, Lease(record.id))
        lease.ttl = record.ttl
        over = (self._clock.now() - record.renewed).total_seconds() if record.renewed is not None else 0.0
        self._renewed(lease, record.renewals, min(max(over, 0.0), record.ttl))
        return lease

    def renew(self, lease: Lease, renewals: int) -> None:
        """Gives a lease its whole time again."""
        self._renewed(lease, renewals, 0.0)

    def _renewed(self, lease: Lease, renewals: int, over: float) -> None:
        lease.renewals = renewals
        lease.expiry = self._clock.monotonic() + lease.ttl - over
        heapq.heappush(self._expiries, (lease.expiry, lease.id))
        if len(self._expiries) > 64 + 4 * len(self.by_id):
            self._expiries = [(item.expiry, item.id) for item in self.by_id.values()]
            heapq.heapify(self._expiries)

    def counts(self) -> Mapping[int, int]:
        """The renewals of each lease, for `follow`."""
        return {number: lease.renewals for number, lease in self.by_id.items()}

    def follow(self, records: Iterable[LeaseRecord], before: Mapping[int, int]) -> None:
        """Takes over what others did: `records` were read after `before` was taken. What this server has done
        meanwhile stays.
        """
        there = {record.id: record for record in records}
        for number, renewals in before.items():
            lease = self.by_id.get(number)
            if lease is not None and lease.renewals == renewals and number not in there:
                del self.by_id[number]
        for number, record in there.items():
            lease = self.by_id.get(number)
            if lease is None:
                if number not in before:
                    self.add(record)
            elif lease.renewals == before.get(number) != record.renewals:
                self.add(record)

    def remaining(self, lease: Lease) -> int:
        """Whole seconds, as etcd cuts them."""
        return int(lease.expiry - self._clock.monotonic())

    def by_expiry(self) -> Sequence[Lease]:
        return sorted(self.by_id.values(), key=lambda lease: lease.expiry)

    def next_expiry(self) -> float | None:
        while self._expiries:
            expiry, number = self._expiries[0]
            lease = self.by_id.get(number)
            if lease is not None and lease.expiry == expiry:
                return expiry
            heapq.heappop(self._expiries)
        return None

    def expired(self) -> Sequence[Lease]:
        """Takes those out of the queue whose time is over."""
        now = self._clock.monotonic()
        found: list[Lease] = []
        while (expiry := self.next_expiry()) is not None and expiry <= now:
            found.append(self.by_id[heapq.heappop(self._expiries)[1]])
        return found

    def retry(self, lease: Lease) -> None:
        """Puts a lease that could not be revoked back into the queue."""
        heapq.heappush(self._expiries, (lease.expiry, lease.id))

    def apply(self, changes: Sequence[Change]) -> None:
        for change in changes:
            previous = change.previous
            if previous is not None and previous.lease and previous.lease != change.state.lease:
                keys = self._keys.get(previous.lease, {})
                keys.pop(change.state.key, None)
                if not keys:
                    self._keys.pop(previous.lease, None)
            self._attach(change.state)

    def _attach(self, state: State) -> None:
        if state.lease:
            self._keys.setdefault(state.lease, {})[state.key] = None

    def unknown(self, changes: Sequence[Change]) -> bool:
        """True if a change has a lease that somebody else must have granted."""
        return any(change.state.lease and change.state.lease not in self.by_id for change in changes)

    def remove(self, number: int) -> None:
        self.by_id.pop(number, None)

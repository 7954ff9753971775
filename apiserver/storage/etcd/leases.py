"""Leases: which there are, whose keys they hold, and when they end (server/lease/lessor.go, 3.6).

The backing keeps them; a server that starts gives each its whole time again, as etcd's new leader does.
"""

import heapq
from collections.abc import Iterable, Sequence

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage.etcd.backing import LeaseRecord
from kubeskew.apiserver.storage.etcd.wire import Change, State

MAX_TTL = 9_000_000_000
MIN_TTL = 2  # seconds; of etcd's election timeout of one second


class Lease:
    __slots__ = ("expiry", "id", "keys", "ttl")

    def __init__(self, record: LeaseRecord, now: float) -> None:
        self.id = record.id
        self.ttl = record.ttl
        self.expiry = now + record.ttl
        self.keys: set[bytes] = set()


class Leases:
    def __init__(self, clock: Clock, granted: Iterable[LeaseRecord], states: Iterable[State]) -> None:
        self._clock = clock
        self.by_id: dict[int, Lease] = {}
        self._expiries: list[tuple[float, int]] = []  # a heap; entries of older expiries are skipped
        for record in granted:
            self.add(record)
        self.attach_all(states)

    def attach_all(self, states: Iterable[State]) -> None:
        """Leases have the keys of these states, and no others."""
        for lease in self.by_id.values():
            lease.keys.clear()
        for state in states:
            self._attach(state)

    def add(self, record: LeaseRecord) -> Lease:
        lease = self.by_id[record.id] = Lease(record, self._clock.monotonic())
        heapq.heappush(self._expiries, (lease.expiry, lease.id))
        return lease

    def renew(self, lease: Lease) -> None:
        lease.expiry = self._clock.monotonic() + lease.ttl
        heapq.heappush(self._expiries, (lease.expiry, lease.id))
        if len(self._expiries) > 64 + 4 * len(self.by_id):
            self._expiries = [(item.expiry, item.id) for item in self.by_id.values()]
            heapq.heapify(self._expiries)

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
                lease = self.by_id.get(previous.lease)
                if lease is not None:
                    lease.keys.discard(change.state.key)
            self._attach(change.state)

    def _attach(self, state: State) -> None:
        if state.lease and (lease := self.by_id.get(state.lease)) is not None:
            lease.keys.add(state.key)

    def remove(self, number: int) -> None:
        self.by_id.pop(number, None)

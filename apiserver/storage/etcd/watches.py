"""Watches of keys and ranges, and an index that finds those which a change concerns."""

from collections import Counter
from collections.abc import Iterator
from typing import Protocol, TypeVar

from kubeskew.apiserver.storage.etcd.backing import ALL_KEYS
from kubeskew.apiserver.storage.etcd.messages.rpc_pb2 import WatchCreateRequest
from kubeskew.apiserver.storage.etcd.request_checks import Interval
from kubeskew.apiserver.storage.etcd.sorted_keys import prefix_of
from kubeskew.apiserver.storage.etcd.wire import Change


class Receiver(Protocol):
    """The stream that a watch belongs to."""

    def push(self, watcher: "Watcher", revision: int, change: Change) -> None: ...

    def fall_behind(self, watcher: "Watcher", revision: int) -> None: ...


class Watcher:
    """One watch. `next` is the oldest revision that it has not been given."""

    __slots__ = (
        "deletions", "end", "fragment", "id", "in_step", "key", "next", "notifies", "previous", "progress",
        "puts", "start", "stream",
    )  # fmt: skip

    def __init__(self, stream: Receiver, number: int, request: WatchCreateRequest) -> None:
        self.stream = stream
        self.id = number
        self.key = request.key or ALL_KEYS
        self.end = request.range_end
        self.puts = WatchCreateRequest.NOPUT not in request.filters
        self.deletions = WatchCreateRequest.NODELETE not in request.filters
        self.previous = request.prev_kv
        self.fragment = request.fragment
        self.notifies = request.progress_notify
        self.progress = request.progress_notify  # a notification is due
        self.start = request.start_revision
        self.next = 0
        self.in_step = False

    def wants(self, change: Change) -> bool:
        """Applies the filters; the key of the change is one that is watched."""
        return self.deletions if change.state.value is None else self.puts

    def covers(self, key: bytes) -> bool:
        if not self.end:
            return key == self.key
        return self.key <= key and (self.end == ALL_KEYS or key < self.end)


class WatchIndex:
    """Finds the watchers of a key: by the key, by the prefixes that it has, and other ranges one by one."""

    def __init__(self) -> None:
        self._keys: dict[bytes, dict[Watcher, None]] = {}
        self._prefixes: dict[bytes, dict[Watcher, None]] = {}
        self._lengths: Counter[int] = Counter()  # of those prefixes
        self._ranges: dict[Interval, dict[Watcher, None]] = {}

    def add(self, watcher: Watcher) -> None:
        prefix = prefix_of(watcher.key, watcher.end)
        if not watcher.end:
            self._keys.setdefault(watcher.key, {})[watcher] = None
        elif prefix is None:
            self._ranges.setdefault((watcher.key, watcher.end), {})[watcher] = None
        else:
            if prefix not in self._prefixes:
                self._prefixes[prefix] = {}
                self._lengths[len(prefix)] += 1
            self._prefixes[prefix][watcher] = None

    def remove(self, watcher: Watcher) -> None:
        prefix = prefix_of(watcher.key, watcher.end)
        if not watcher.end:
            _remove(self._keys, watcher.key, watcher)
        elif prefix is None:
            _remove(self._ranges, (watcher.key, watcher.end), watcher)
        elif _remove(self._prefixes, prefix, watcher):
            self._lengths[len(prefix)] -= 1
            if not self._lengths[len(prefix)]:
                del self._lengths[len(prefix)]

    def of(self, key: bytes) -> Iterator[Watcher]:
        yield from self._keys.get(key, ())
        for length in self._lengths:
            if length <= len(key):
                yield from self._prefixes.get(key[:length], ())
        for (first, end), watchers in self._ranges.items():
            if first <= key and (end == ALL_KEYS or key < end):
                yield from watchers

    def all(self) -> Iterator[Watcher]:
        for watchers in (*self._keys.values(), *self._prefixes.values(), *self._ranges.values()):
            yield from watchers


Place = TypeVar("Place")


def _remove(index: dict[Place, dict[Watcher, None]], place: Place, watcher: Watcher) -> bool:
    """True if nothing is left in the place."""
    watchers = index[place]
    del watchers[watcher]
    if not watchers:
        del index[place]
    return not watchers

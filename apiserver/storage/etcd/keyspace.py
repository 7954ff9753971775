"""Keys in memory as the backing has committed them: the newest state, and those of a window of revisions.

Older states, which few ask for, are read from the backing. Memory is bounded by what exists and the window.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from kubeskew.apiserver.storage.etcd.backing import Commit, Record
from kubeskew.apiserver.storage.etcd.sorted_keys import SortedKeys
from kubeskew.apiserver.storage.etcd.wire import Change, State

WINDOW_BYTES = 64 << 20
_COMMIT_BYTES = 300  # about what a commit takes but for keys and values
_TRIM_AT_ONCE = 1024


def state_of(record: Record) -> State:
    return State(*record)


def _revision(state: State) -> int:
    return state.revision


class Keyspace:
    """`floor` is the oldest revision whose states are in memory; `compacted` is etcd's, -1 before the first
    compaction.
    """

    def __init__(self, floor: int, compacted: int, states: Iterable[State]) -> None:
        self.revision = floor
        self.floor = floor
        self.compacted = compacted or -1
        self.live = {state.key: state for state in states}
        self._live_keys = SortedKeys(self.live)
        self._past = {key: [state] for key, state in self.live.items()}  # oldest first, with deletions
        self._past_keys = SortedKeys(self.live)
        self._commits: list[list[Change]] = []  # of `floor` + 1 and later, from `_trimmed` on
        self._trimmed = 0
        self._window = 0

    def apply(self, commit: Commit) -> Sequence[Change]:
        changes = [self._change(record) for record in commit.records]
        self.revision = commit.revision
        self._commits.append(changes)
        while self._window > WINDOW_BYTES and self.floor < self.revision - 1:
            self._trim(self.floor + 1)
        return changes

    def _change(self, record: Record) -> Change:
        state = state_of(record)
        key = state.key
        previous = self.live.get(key)
        if state.value is not None:
            self.live[key] = state
            if previous is None:
                self._live_keys.add(key)
        elif previous is not None:
            del self.live[key]
            self._live_keys.remove(key)
        past = self._past.get(key)
        if past is None:
            past = self._past[key] = []
            self._past_keys.add(key)
        past.append(state)
        self._window += state.size + _COMMIT_BYTES
        return Change(state, previous)

    def current(self, key: bytes, end: bytes) -> list[State]:
        """Sorts by key. An empty `end` is for one key."""
        live = self.live
        if not end:
            return [live[key]] if key in live else []
        return [live[name] for name in self._live_keys.between(key, end)]

    def current_page(self, key: bytes, end: bytes, limit: int) -> list[State]:
        names = self._live_keys.between(key, end)
        return [self.live[name] for name, _ in zip(names, range(limit), strict=False)]

    def count(self, key: bytes, end: bytes) -> int:
        return self._live_keys.count(key, end) if end else int(key in self.live)

    def as_of(self, key: bytes, revision: int) -> State | None:
        """`revision` is in the window."""
        past = self._past.get(key)
        if past is None:
            return None
        place = bisect_right(past, revision, key=_revision)
        state = past[place - 1] if place else None
        return state if state is not None and state.value is not None else None

    def at(self, revision: int, key: bytes, end: bytes) -> list[State]:
        """`revision` is in the window."""
        if revision == self.revision:
            return self.current(key, end)
        names: Iterable[bytes] = self._past_keys.between(key, end) if end else (key,)
        states = (self.as_of(name, revision) for name in names)
        return [state for state in states if state is not None]

    def changes_since(self, revision: int, stop: int) -> Iterator[tuple[int, Sequence[Change]]]:
        """Commits at `revision` and later, before `stop`; all are newer than `floor`."""
        first = self._trimmed - self.floor - 1
        for number in range(revision, min(stop, self.revision + 1)):
            yield number, self._commits[first + number]

    def compact(self, revision: int) -> None:
        self.compacted = revision
        while self.floor < revision:
            self._trim(self.floor + 1)

    def _trim(self, floor: int) -> None:
        """Forgets states that only revisions before `floor` show."""
        changes = self._commits[self._trimmed]
        self._trimmed += 1
        self.floor = floor
        for change in changes:
            self._window -= change.state.size + _COMMIT_BYTES
            self._forget(change.state.key, floor)
        if self._trimmed >= _TRIM_AT_ONCE:
            del self._commits[: self._trimmed]
            self._trimmed = 0

    def _forget(self, key: bytes, floor: int) -> None:
        past = self._past.get(key)
        if past is None:
            return
        place = bisect_right(past, floor, key=_revision)
        if place and past[place - 1].value is not None:
            place -= 1
        del past[:place]
        if not past:
            del self._past[key]
            self._past_keys.remove(key)

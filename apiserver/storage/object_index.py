"""Indexes the current objects in memory, in the order of lists: per resource, per namespace, by name.

The event loop alone changes them; a thread may read meanwhile (strategies of large objects do). It then sees
each object as it was or is, and may or may not see one that comes or goes. So a reader takes each step by
single, uninterrupted operations.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from kubeskew.apiserver.storage.records import Entry, Key, Page

Matches = Callable[[Entry], bool]

STEP = 1000  # objects taken at once
_LAST_UID = "\U0010ffff"  # behind any that is one


class NamespaceIndex:
    """Holds one namespace's objects of one resource, by name and in order.

    Writes find their place among the names, which is three times as fast; readers look at `ordered` alone.
    """

    __slots__ = ("_names", "entries", "ordered")

    def __init__(self, entries: Mapping[str, Entry] | None = None) -> None:
        self.entries: dict[str, Entry] = dict(entries or {})
        self._names = sorted(self.entries)
        self.ordered = [self.entries[name] for name in self._names]

    def put(self, entry: Entry) -> None:
        name = entry.key.name
        at = bisect_left(self._names, name)
        if name in self.entries:
            self.ordered[at] = entry
        else:
            self._names.insert(at, name)
            self.ordered.insert(at, entry)
        self.entries[name] = entry

    def remove(self, name: str) -> None:
        if self.entries.pop(name, None) is not None:
            at = bisect_left(self._names, name)
            del self._names[at]
            del self.ordered[at]

    def copy(self) -> "NamespaceIndex":
        copy = NamespaceIndex()
        copy.entries, copy._names, copy.ordered = self.entries.copy(), self._names.copy(), self.ordered.copy()
        return copy

    def behind(self, key: Key) -> int:
        """Returns the position in `ordered` after `key`."""
        return bisect_left(self.ordered, (key, _LAST_UID))


class ResourceIndex:
    """Holds one resource's objects. Namespaces are in the order of `namespace/`, as etcd's keys are."""

    __slots__ = ("_indexes", "_order")

    def __init__(self) -> None:
        self._indexes: dict[str, NamespaceIndex] = {}
        self._order: list[str] = []  # of `namespace/`, "" for what has none

    def get(self, namespace: str, name: str) -> Entry | None:
        index = self._indexes.get(namespace)
        return index.entries.get(name) if index else None

    def put(self, entry: Entry) -> None:
        namespace = entry.key.namespace
        index = self._indexes.get(namespace)
        if index is None:
            index = self._indexes[namespace] = NamespaceIndex()
            insort(self._order, _prefix(namespace))
        index.put(entry)

    def remove(self, key: Key) -> None:
        index = self._indexes.get(key.namespace)
        if index is None:
            return
        index.remove(key.name)
        if not index.ordered:
            del self._indexes[key.namespace]
            del self._order[bisect_left(self._order, _prefix(key.namespace))]

    def load(self, entries: Iterable[Entry]) -> None:
        """Puts many at once into what is empty: sorted once, at the end."""
        found: dict[str, dict[str, Entry]] = {}
        for entry in entries:
            found.setdefault(entry.key.namespace, {})[entry.key.name] = entry
        self._indexes = {namespace: NamespaceIndex(named) for namespace, named in found.items()}
        self._order = sorted(map(_prefix, self._indexes))

    def copied(self, namespace: str | None) -> "ResourceIndex":
        """Returns a copy, of one namespace only if it is given; the objects themselves are shared."""
        copy = ResourceIndex()
        wanted = list(self._indexes) if namespace is None else [namespace] * (namespace in self._indexes)
        for name in wanted:
            copy._indexes[name] = self._indexes[name].copy()
        copy._order = sorted(map(_prefix, wanted))
        return copy

    def following(self, namespace: str | None, after: Key | None) -> Iterator[Sequence[Entry]]:
        """Yields the objects of `namespace`, of all if None, from behind `after` on: in order, in parts."""
        if namespace is not None:
            yield from self._in(namespace, after)
            return
        start = 0
        if after is not None:
            yield from self._in(after.namespace, after)
            start = bisect_right(self._order, _prefix(after.namespace))
        for prefix in self._order[start:]:
            yield from self._in(prefix[:-1], None)

    def _in(self, namespace: str, after: Key | None) -> Iterator[Sequence[Entry]]:
        index = self._indexes.get(namespace)
        while index is not None:
            start = 0 if after is None else index.behind(after)
            part = index.ordered[start : start + STEP]
            yield part
            if len(part) < STEP:
                return
            after = part[-1].key

    def behind(self, namespace: str | None, last: Key) -> int:
        """Returns the number of objects after `last`."""
        index = self._indexes.get(last.namespace)
        here = len(index.ordered) - index.behind(last) if index else 0
        if namespace is not None:
            return here
        start = bisect_right(self._order, _prefix(last.namespace))
        others = filter(None, (self._indexes.get(prefix[:-1]) for prefix in self._order[start:]))
        return here + sum(len(other.ordered) for other in others)


def _prefix(namespace: str) -> str:
    return f"{namespace}/"


def page(
    indexes: ResourceIndex,
    revision: int,
    namespace: str | None,
    after: Key | None,
    limit: int,
    matches: Matches | None,
) -> Page:
    """Returns the part of a list that begins behind `after`: at most `limit` objects (0: all)
    that `matches`.
    """
    found: Iterable[Entry] = chain.from_iterable(indexes.following(namespace, after))
    if matches is not None:
        found = filter(matches, found)
    if not limit:
        return Page(revision, list(found))
    entries = list(islice(found, limit))
    if len(entries) < limit:
        return Page(revision, entries)
    last = entries[-1].key
    remaining = indexes.behind(namespace, last)
    return Page(revision, entries, last if remaining else None, remaining)


def overlay(
    indexes: ResourceIndex, changed: Mapping[Key, Entry | None], namespace: str | None
) -> ResourceIndex:
    """Returns a copy of `namespace` (all if None) with some objects as they are in `changed`; None means
    absent.
    """
    copy = indexes.copied(namespace)
    for key, entry in changed.items():
        if entry is None:
            copy.remove(key)
        else:
            copy.put(entry)
    return copy

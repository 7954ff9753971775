"""The current objects in memory, in the order of lists: per resource, per namespace, by name.

The event loop alone changes them; a thread may read meanwhile (strategies of large objects do). It then sees
each object as it was or is, and may or may not see one that comes or goes. So a reader takes each step from
tables of single, uninterrupted operations, and believes no name until it has found its entry.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from apiserver.storage.records import Entry, Key, Page

Matches = Callable[[Entry], bool]

STEP = 1000  # names taken at once


class Shelf:
    """One namespace's objects of one resource, with their names in order."""

    __slots__ = ("entries", "names")

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.names: list[str] = []

    def put(self, entry: Entry) -> None:
        name = entry.key.name
        if name not in self.entries:
            insort(self.names, name)
        self.entries[name] = entry

    def remove(self, name: str) -> None:
        if self.entries.pop(name, None) is not None:
            del self.names[bisect_left(self.names, name)]


class Shelves:
    """One resource's objects. Namespaces are in the order of `namespace/`, as etcd's keys are."""

    __slots__ = ("_order", "_shelves")

    def __init__(self) -> None:
        self._shelves: dict[str, Shelf] = {}
        self._order: list[str] = []  # of `namespace/`, "" for what has none

    def get(self, namespace: str, name: str) -> Entry | None:
        shelf = self._shelves.get(namespace)
        return shelf.entries.get(name) if shelf else None

    def put(self, entry: Entry) -> None:
        namespace = entry.key.namespace
        shelf = self._shelves.get(namespace)
        if shelf is None:
            shelf = self._shelves[namespace] = Shelf()
            insort(self._order, _prefix(namespace))
        shelf.put(entry)

    def remove(self, key: Key) -> None:
        shelf = self._shelves.get(key.namespace)
        if shelf is None:
            return
        shelf.remove(key.name)
        if not shelf.names:
            del self._shelves[key.namespace]
            del self._order[bisect_left(self._order, _prefix(key.namespace))]

    def load(self, entries: Iterable[Entry]) -> None:
        """Put many at once into what is empty: sorted once, at the end."""
        for entry in entries:
            self._shelves.setdefault(entry.key.namespace, Shelf()).entries[entry.key.name] = entry
        for shelf in self._shelves.values():
            shelf.names = sorted(shelf.entries)
        self._order = sorted(map(_prefix, self._shelves))

    def copied(self, namespace: str | None) -> "Shelves":
        """A copy, of one namespace only if it is given; the objects themselves are shared."""
        copy = Shelves()
        wanted = self._shelves if namespace is None else {namespace} & self._shelves.keys()
        for name in wanted:
            shelf = copy._shelves[name] = Shelf()
            shelf.entries = self._shelves[name].entries.copy()
            shelf.names = self._shelves[name].names.copy()
        copy._order = sorted(map(_prefix, wanted))
        return copy

    def following(self, namespace: str | None, after: Key | None) -> Iterator[Entry]:
        """The objects of `namespace`, of all if None, from behind `after` on, in order."""
        if namespace is not None:
            yield from self._in(namespace, after.name if after else None)
            return
        start = 0
        if after is not None:
            yield from self._in(after.namespace, after.name)
            start = bisect_right(self._order, _prefix(after.namespace))
        for prefix in self._order[start:]:
            yield from self._in(prefix[:-1], None)

    def _in(self, namespace: str, after: str | None) -> Iterator[Entry]:
        shelf = self._shelves.get(namespace)
        while shelf is not None:
            start = 0 if after is None else bisect_right(shelf.names, after)
            names = shelf.names[start : start + STEP]
            yield from filter(None, map(shelf.entries.get, names))
            if len(names) < STEP:
                return
            after = names[-1]

    def behind(self, namespace: str | None, last: Key) -> int:
        """How many objects follow `last`."""
        shelf = self._shelves.get(last.namespace)
        here = len(shelf.names) - bisect_right(shelf.names, last.name) if shelf else 0
        if namespace is not None:
            return here
        start = bisect_right(self._order, _prefix(last.namespace))
        others = filter(None, (self._shelves.get(prefix[:-1]) for prefix in self._order[start:]))
        return here + sum(len(one.names) for one in others)


def _prefix(namespace: str) -> str:
    return f"{namespace}/"


def page(
    shelves: Shelves,
    revision: int,
    namespace: str | None,
    after: Key | None,
    limit: int,
    matches: Matches | None,
) -> Page:
    """The part of a list that begins behind `after`: at most `limit` objects (0: all) that `matches`."""
    found = shelves.following(namespace, after)
    if matches is not None:
        found = filter(matches, found)
    if not limit:
        return Page(revision, list(found))
    entries = list(islice(found, limit))
    if len(entries) < limit:
        return Page(revision, entries)
    last = entries[-1].key
    remaining = shelves.behind(namespace, last)
    return Page(revision, entries, last if remaining else None, remaining)


def overlay(shelves: Shelves, changed: Mapping[Key, Entry | None], namespace: str | None) -> Shelves:
    """A copy of `namespace` (all if None) with some objects as they are in `changed`; None means absent."""
    copy = shelves.copied(namespace)
    for key, entry in changed.items():
        if entry is None:
            copy.remove(key)
        else:
            copy.put(entry)
    return copy

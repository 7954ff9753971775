"""Caches values parsed and derived from stored objects, and keys of objects that changed.

A cache of two generations forgets what was not used for long, and nothing else: what a key stands for must
never change, as with revisions, digests and immutable values. A value derived from stored objects is
forgotten at any change to an object of their resources, of this server or another.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.unreadable import object_of, stored_object

K = TypeVar("K")
V = TypeVar("V")
log = logging.getLogger(__name__)

T = TypeVar("T")
Read = Callable[[bytes, int], Object]


class TwoGenerationCache(Generic[K, V]):
    """A mapping of at most twice `size` entries; every operation is a dict look-up or two.

    With `weigh`, a generation also ends once its entries weigh more than `weight_max` (bytes, mostly).
    """

    def __init__(self, size: int, weigh: Callable[[K, V], int] | None = None, weight_max: int = 0) -> None:
        self._size = size
        self._weight_max = weight_max
        self._weigh = weigh
        self._weight = 0  # of what was put into the young generation
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        if len(self._young) >= self._size or self._weight > self._weight_max:
            self._old, self._young = self._young, {}
            self._weight = 0
        if self._weigh is not None:
            self._weight += self._weigh(key, value)
        self._young[key] = value

    def __contains__(self, key: K) -> bool:
        return key in self._young or key in self._old

    def __len__(self) -> int:
        return len(self._young) + len(self._old)


class ChangeTracker:
    """Keeps the keys of objects that came, changed or went; at first, of all there are.

    What is made of many objects can so be kept up to date at the cost of what changes.
    """

    def __init__(self, store: Store, resources: Sequence[str]) -> None:
        self._store = store
        self._keys: dict[Key, None] = {}
        for resource in resources:
            store.follow(resource, self._note)
            for entry in store.list(resource).entries:
                self._note(entry.key)

    def _note(self, key: Key) -> None:
        self._keys[key] = None

    def __bool__(self) -> bool:
        return bool(self._keys)

    def take(self) -> Iterator[tuple[Key, Entry | None]]:
        """Each changed object comes once, as it now is (None: gone); from here on it counts as known."""
        keys, self._keys = self._keys, {}
        for key in keys:
            yield key, self._store.get(key)


class ParsedObjects:
    """Parses once each of the few objects that most writes are checked against; they are never changed."""

    def __init__(self, size: int) -> None:
        self._by_revision: TwoGenerationCache[tuple[int, Key], Object] = TwoGenerationCache(size)

    def of(self, entry: Entry) -> Object:
        """The object is as stored; raises what reading it raises."""
        state = entry.revision, entry.key
        obj = self._by_revision.get(state)
        if obj is None:
            obj = object_of(entry)
            self._by_revision.put(state, obj)
        return obj


class DerivedFromStore(Generic[T]):
    """A value made of every object of some resources (storage resources: `pods`, `roles.rbac.…`).

    `make` gets one list of objects per resource, each as `read` gives it: by default as stored, which is good
    enough for kinds of a single version. Others come as `Codec.current` decodes them, whoever wrote them;
    what cannot be decoded is left out, so that the server goes on without it.
    """

    def __init__(
        self, store: Store, resources: Sequence[str], make: Callable[..., T], read: Read = stored_object
    ) -> None:
        self._store = store
        self._read = read
        self._resources = tuple(resources)
        self._make = make
        self._changes = 0  # of these resources, seen so far
        self._made: tuple[int, T] | None = None  # the number of changes seen when it was made, and the value
        for resource in self._resources:
            store.follow(resource, self._note)

    def get(self) -> T:
        """The value is as of the newest revision that this server has applied; threads may ask as well."""
        made = self._made
        if made is None or made[0] != self._changes:
            seen = self._changes
            self._made = made = seen, self._make(*map(self._objects, self._resources))
        return made[1]

    def _note(self, _key: Key) -> None:
        self._changes += 1

    def _objects(self, resource: str) -> list[Object]:
        found = (self._object(entry) for entry in self._store.list(resource).entries)
        return [obj for obj in found if obj is not None]

    def _object(self, entry: Entry) -> Object | None:
        try:
            return self._read(entry.value, entry.revision)
        except StatusError as error:
            key, revision = entry.key, entry.revision
            log.warning("%s %s at %d cannot be decoded: %s", key.resource, key.path, revision, error.message)
            return None

"""Keeps the keys of the objects of some resources that changed; forgets them when they are taken."""

from collections.abc import Iterator, Sequence

from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Entry, Key


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
        """Decides whether anything has changed."""
        return bool(self._keys)

    def take(self) -> Iterator[tuple[Key, Entry | None]]:
        """Takes the changed objects, as they now are (None: gone), each once; from here on they count as
        known.
        """
        keys, self._keys = self._keys, {}
        for key in keys:
            yield key, self._store.get(key)

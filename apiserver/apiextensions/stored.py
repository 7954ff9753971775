"""Keeps the stored definitions as this server knows them: read again only when one has changed."""

from collections.abc import Iterable, Mapping

from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.apiextensions.resource import STORED_AS, Definition
from kubeskew.apiserver.features import SchemaFeatures
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Entry
from kubeskew.apiserver.unreadable import known_object


class StoredDefinitions:
    """Follows the store; a definition that did not change stays the same value, and so do its resources."""

    def __init__(self, store: Store, metadata: Schema, features: SchemaFeatures) -> None:
        self._store = store
        self._metadata = metadata
        self._features = features
        self._known: dict[str, Definition] = {}
        self._seen = -1
        self.generation = 0  # grows with every change

    def get(self) -> Mapping[str, Definition]:
        """Returns all definitions by name, as of the newest revision this server has applied."""
        seen = self._store.changed(STORED_AS)
        if seen != self._seen:
            self._seen = seen
            self._read(self._store.list(STORED_AS).entries)
        return self._known

    def _read(self, entries: Iterable[Entry]) -> None:
        before = self._known
        found = ((entry.key.name, self._definition(entry)) for entry in entries)
        self._known = {name: definition for name, definition in found if definition is not None}
        self.generation += 1
        for name, definition in before.items():
            if self._known.get(name) is not definition:
                definition.end_watches()

    def _definition(self, entry: Entry) -> Definition | None:
        """Returns the definition of an entry; None if it cannot be read, which makes nothing then."""
        known = self._known.get(entry.key.name)
        if known is not None and known.revision == entry.revision:
            return known
        obj = known_object(entry)
        if obj is None:
            return None
        found = Definition(obj, entry.revision, entry.created, self._metadata, self._features)
        if known is not None and known.makes_same_as(found):
            known.follow(found)
            return known
        if known is None or known.uid != found.uid:
            self._store.raise_horizon(found.stored_as, entry.created)
        else:
            self._store.refill(found.stored_as)  # its watches end, too (customresource_handler.go)
        return found

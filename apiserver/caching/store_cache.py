"""Keeps values derived from stored objects: webhooks, policies, flow schemas.

Any change to an object of their resources, of this server or another, makes the value be forgotten.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.unreadable import stored_object

log = logging.getLogger(__name__)

T = TypeVar("T")
Read = Callable[[bytes, int], Object]


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
        """Returns the value as of the newest revision this server has applied; threads may ask as well."""
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

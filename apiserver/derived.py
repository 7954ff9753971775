"""What is made of stored objects, anew only when they have changed: roles, webhooks, policies, quotas."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from apimachinery.errors import Object
from apiserver.encoding import object_of
from apiserver.storage.interfaces import Store

T = TypeVar("T")


class Derived(Generic[T]):
    """A value made of every object of some resources (storage resources: `pods`, `roles.rbac.…`).

    `make` gets one list of objects per resource, as stored: in the storage version of whoever wrote them.
    """

    def __init__(self, store: Store, resources: Sequence[str], make: Callable[..., T]) -> None:
        self._store = store
        self._resources = tuple(resources)
        self._make = make
        self._seen: tuple[int, ...] = ()
        self._value: T | None = None

    def get(self) -> T:
        """The value as of the newest revision this server has applied."""
        seen = tuple(map(self._store.changed, self._resources))
        if self._value is None or seen != self._seen:
            self._value = self._make(*map(self._objects, self._resources))
            self._seen = seen
        return self._value

    def _objects(self, resource: str) -> list[Object]:
        return [object_of(entry.value, entry.revision) for entry in self._store.list(resource).entries]

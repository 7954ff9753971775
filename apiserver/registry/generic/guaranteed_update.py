"""Tries a write on the object as this server knows it, and again while that proves out of date.

Source: k8s.io/apiserver/pkg/storage/etcd3/store.go (GuaranteedUpdate), 1.36: what is at hand is only a
suggestion; it is read again before an error is believed. As there, nothing bounds the repetitions: each
follows a write of somebody else. A patch has no bound of its own around them: the five attempts of
MaxRetryWhenPatchConflicts were gone from upstream's patch.go before 1.26.
"""

from collections.abc import Awaitable, Callable

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apiserver.registry.generic.writes import WriteResult
from kubeskew.apiserver.storage.failures import RevisionMismatchError
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Entry, Key

Attempt = Callable[[Entry | None], Awaitable[WriteResult]]


async def guaranteed_update(store: Store, key: Key, attempt: Attempt) -> WriteResult:
    """Returns the result of `attempt` on the current object (None: there is none); raises its StatusError."""
    while True:
        entry = store.get(key)
        try:
            return await attempt(entry)
        except RevisionMismatchError:
            await store.refresh()
        except StatusError:
            await store.refresh()
            if _same(store.get(key), entry):
                raise


async def confirm(store: Store, entry: Entry) -> None:
    """Raise RevisionMismatchError unless `entry` is still current: for what succeeds without writing."""
    await store.refresh()
    current = store.get(entry.key)
    if not _same(current, entry):
        raise RevisionMismatchError(entry.key, current)


def _same(one: Entry | None, other: Entry | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.revision == other.revision

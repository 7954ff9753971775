"""Every write of this server goes this way: the store gets what a request has made of an object.

What the server keeps of the objects it serves (`Codec`: in which form; `Registry`: labels and fields) learns
of each write here, so that no writer can leave it out, and watchers get the bytes without decoding them.

A write is tried on the object as this server knows it, and again while that proves out of date. What is at
hand is only a suggestion; it is read again before an error is believed. As upstream, nothing bounds the
repetitions: each follows a write of somebody else. A patch has no bound of its own around them: the five
attempts of MaxRetryWhenPatchConflicts were gone from upstream's patch.go before 1.26.

Source: k8s.io/apiserver/pkg/storage/etcd3/store.go (Create, GuaranteedUpdate, Delete) and
registry/generic/registry/dryrun.go, 1.36.
"""

from collections.abc import Awaitable, Callable

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.registry.generic.registry import Registry
from kubeskew.apiserver.registry.generic.writes import WriteRequest, WriteResult
from kubeskew.apiserver.storage.interfaces import RevisionMismatchError, StorageError, Store
from kubeskew.apiserver.storage.records import Change, Entry, Event, Key, Verb
from kubeskew.apiserver.unreadable import UnreadableError

Attempt = Callable[[Entry | None], Awaitable[WriteResult]]


async def guaranteed_update(store: Store, key: Key, attempt: Attempt) -> WriteResult:
    """`attempt` gets the current object (None: there is none); its StatusError is raised."""
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
    """Requests that succeed without writing need this: raises RevisionMismatchError unless `entry` is still
    current."""
    await store.refresh()
    current = store.get(entry.key)
    if not _same(current, entry):
        raise RevisionMismatchError(entry.key, current)


def _same(one: Entry | None, other: Entry | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.revision == other.revision


async def commit(
    registry: Registry, key: Key, obj: Object, write: WriteRequest, over: Entry | None
) -> WriteResult:
    """`obj` is stored over the entry `over` (None: as a new one); the result is what its writer gets to see.

    A dry run stores nothing, nor does a custom resource that would be stored as it is. Raises
    RevisionMismatchError if something else than `over` stands there; a dry run only looks for that if the
    object is new.
    """
    services, codec = registry.services, registry.services.codec
    value, served_as = await codec.stored(registry.resource, obj)
    if over is not None and registry.resource.custom and codec.holds(over.value, value):
        await confirm(services.store, over)
        found = registry.object(over)
        return WriteResult(found, over.revision, over.value)
    expected = over.revision if over is not None else 0
    if write.dry_run:
        if over is None:
            await _check_absence(registry, key)
        revision, stored = expected, None
    else:
        verb = Verb.CREATE if over is None else Verb.UPDATE
        uid = obj["metadata"]["uid"] if over is None else over.uid
        now = services.environment.clock.now()
        event = await _write(registry, Change(verb, key, uid, value, expected, write.author, now), served_as)
        revision, stored = event.revision, value
    obj = await codec.returned(registry.resource, obj, value, served_as)
    if stored is not None:
        registry.remember_selectable(obj, revision)
    if revision:
        obj["metadata"]["resourceVersion"] = str(revision)
    return WriteResult(obj, revision, stored, created=over is None)


async def commit_removal(registry: Registry, entry: Entry, write: WriteRequest) -> int:
    """The revision is that of the deletion; log and watchers see the object as it last was stored.

    Raises RevisionMismatchError.
    """
    now = registry.services.environment.clock.now()
    change = Change(Verb.DELETE, entry.key, entry.uid, entry.value, entry.revision, write.author, now)
    served_as_stored = _is_served_as_stored(registry, entry)
    event = await _write(registry, change, registry.resource if served_as_stored else None)
    return event.revision


async def _write(registry: Registry, change: Change, form: Resource | None) -> Event:
    """This server serves the value of `change` as it is in the version of `form`, if in any."""
    services, operation, resource = registry.services, change.verb.value, change.key.resource
    counted, monotonic = services.metrics.store, services.environment.clock.monotonic
    if form is not None:
        services.codec.expect(change.value, form)
    begun = monotonic()
    try:
        event = await services.store.write(change)
    except StorageError:
        counted.failed(operation, resource)
        raise
    counted.wrote(operation, resource, monotonic() - begun)
    if form is not None:
        services.codec.remember(event.revision, form)
    return event


async def _check_absence(registry: Registry, key: Key) -> None:
    store = registry.services.store
    await store.refresh()
    current = store.get(key)
    if current is not None:
        raise RevisionMismatchError(key, current)


def _is_served_as_stored(registry: Registry, entry: Entry) -> bool:
    try:
        served = registry.services.codec.served(registry.resource, entry.value, entry.revision)
    except UnreadableError:  # an unsafe deletion removes what cannot be served
        return False
    return served is entry.value

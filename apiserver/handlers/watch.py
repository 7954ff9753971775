"""WATCH: a cursor over the log, filtered; an event is encoded once for all watchers that see it alike.

Source: k8s.io/apiserver/pkg/endpoints/handlers/watch.go and pkg/storage/cacher, 1.36.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import NamedTuple

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import StatusError, is_reason
from kubeskew.apimachinery.golang.roundtrip import normalise
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apiextensions.table import CustomResource
from kubeskew.apiserver.apply.patching.json_patch import apply_merge_patch
from kubeskew.apiserver.handlers.list_objects import fetch_conversions
from kubeskew.apiserver.http import media_types, parameters
from kubeskew.apiserver.http.media_types import Accepted
from kubeskew.apiserver.http.parameters import ListOptions
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.registry.codec import form_of
from kubeskew.apiserver.registry.generic.revisions import parse_cached_revision, too_old, wait
from kubeskew.apiserver.registry.generic.selection import Selection, selection
from kubeskew.apiserver.registry.requests import responses, websockets
from kubeskew.apiserver.registry.requests.scope import Scope
from kubeskew.apiserver.storage.encoding import dumps, event_bytes, loads, with_revision
from kubeskew.apiserver.storage.interfaces import (
    CompactedError,
    FutureRevisionError,
    SlowWatcherError,
    StorageError,
    Watch,
)
from kubeskew.apiserver.storage.records import Entry, Event, Verb
from kubeskew.apiserver.unreadable import READ_ERROR, UnreadableError, deleted_unread

MIN_SECONDS = 1800.0  # of a watch that names no timeout; up to twice that
MAX_SECONDS = 10**8  # of a watch that asks for longer: timers of an event loop have a limit
BOOKMARK_SECONDS = 60.0
_LAST_BOOKMARK = 2.0  # seconds before the end
_PIECE = 1 << 19  # bytes of objects that are there already
_END_OF_INITIAL = {"k8s.io/initial-events-end": "true"}
_COMPACTED = "The resourceVersion for the provided watch is too old."  # etcd's answer (etcd3/errors.go)
_ADDED, _MODIFIED, _DELETED = "ADDED", "MODIFIED", "DELETED"
_TYPES = {Verb.CREATE: _ADDED, Verb.UPDATE: _MODIFIED, Verb.DELETE: _DELETED}


class Change(NamedTuple):
    """The watcher gets the object that was `value` at `revision`, with `shown` as its revision."""

    type: str
    value: bytes
    revision: int
    shown: int


async def watch(request: Request, scope: Scope) -> Response:
    """Errors of the request are answered before the stream begins, except that of a revision still to come:
    it is the stream's only event.
    """
    form = responses.form_of(request)
    watch_list = scope.services.features.reads.watch_list
    options = parameters.list_options(request, watch=True, watch_list=watch_list)
    wanted = await selection(request, scope.registry, options)
    revision = parse_cached_revision(options.resource_version)
    media_types.streamed(form)
    if form.convert == "Table":
        responses.included(request)
    encoder = Encoder(request, scope, form)
    if options.send_initial_events or not options.resource_version:
        await scope.services.store.refresh()
    if scope.registry.cached.serves_watch(options):
        await scope.registry.cached.check(_seconds(scope, options))
    if options.send_initial_events and revision:
        try:
            await _reach(scope, options, revision)
        except StatusError as error:
            return websockets.watch_response(request, Response(200, _only(encoder.error(error))))
    within = _namespace(request, scope, wanted)
    events = stream(scope, options, wanted, within, revision, encoder)
    return websockets.watch_response(request, Response(200, events))


async def _only(event: bytes) -> AsyncIterator[bytes]:
    yield event


async def _reach(scope: Scope, options: ListOptions, revision: int) -> None:
    """Waits for the state at `revision`; raises 504.

    The store sends clients of a watch away for one to three seconds (etcd3/watcher.go, startWatching).


    """
    if scope.registry.cached.feeds_watch(options):
        await wait(scope.services.store, revision)
        return
    newest = scope.services.store.revision
    if revision > newest:
        seconds = int(1 + 3 * scope.services.environment.entropy.random())
        raise errors.too_large_resource_version(revision, newest, seconds)


def _namespace(request: Request, scope: Scope, wanted: Selection) -> str | None:
    """Follows the events of one namespace, or of all (None).

    A namespace is in the namespace of its name, if a deprecated path says so (`/api/v1/watch/namespaces/a`),
    and its events are in none: with 125145 the watch has none.


    """
    if scope.services.features.requests.watches_within_namespace:
        return request.info.namespace or None
    return wanted.namespace


async def stream(
    scope: Scope,
    options: ListOptions,
    wanted: Selection,
    within: str | None,
    revision: int,
    encoder: "Encoder",
) -> AsyncIterator[bytes]:
    """Each chunk holds whole lines. Events are those of the namespace `within`."""
    services = scope.services
    store, lifetime, monotonic = services.store, services.lifetime, services.environment.clock.monotonic
    begun = monotonic()
    initial = options.send_initial_events or (revision == 0 and options.send_initial_events is None)
    entries: list[Entry] = []
    since = revision
    try:
        if initial:
            await fetch_conversions(scope, wanted.namespace)
            page = store.list(scope.resource.storage_resource, wanted.namespace, None, 0, wanted.filter)
            entries, since = list(page.entries), page.revision
            services.metrics.reads.begun(scope.resource.storage_resource, len(entries))
        elif revision == 0:
            since = store.revision
        elif not options.begins_in_log:
            _check_known(scope, options, revision)
        cursor = _open(scope, wanted, within, since)
    except (CompactedError, StatusError) as error:
        yield encoder.error(_status_of(error, scope, options))
        return
    loop = asyncio.get_running_loop()
    end = loop.time() + _seconds(scope, options)
    timer = loop.call_at(end, cursor.close)
    others = _watches(scope)
    lifetime.watches[cursor] = None
    others[cursor] = None
    try:
        for found in _pieces(entries):
            yield encoder.lines(
                Change(_ADDED, entry.value, entry.revision, entry.revision) for entry in found
            )
            await asyncio.sleep(0)  # give way to others
        if options.send_initial_events and options.bookmarks:
            yield encoder.bookmark(since, _END_OF_INITIAL)
            where = "namespace" if wanted.namespace else "cluster"
            services.metrics.reads.watch_listed(scope.resource, where, monotonic() - begun)
        reminded = options.bookmarks and scope.registry.cached.feeds_watch(options)
        reminder = _Reminder(cursor, end) if reminded else None
        async for chunk in _follow(scope, wanted, cursor, since, encoder, reminder):
            yield chunk
    except SlowWatcherError:
        return
    except (CompactedError, StatusError, StorageError) as error:
        if not _ends_cache(error, scope, options):
            yield encoder.error(_status_of(error, scope, options))
    finally:
        timer.cancel()
        lifetime.watches.pop(cursor, None)
        others.pop(cursor, None)
        cursor.close()


def _ends_cache(error: Exception, scope: Scope, options: ListOptions) -> bool:
    """Watches that a cache feeds just end when it cannot read an object."""
    unreadable = isinstance(error, UnreadableError) or is_reason(error, READ_ERROR)
    return unreadable and scope.registry.cached.serves_watch(options)


def _status_of(
    error: CompactedError | StatusError | StorageError, scope: Scope, options: ListOptions
) -> StatusError:
    """The watch has this error as its last event; it may be that of an object that cannot be decoded."""
    if isinstance(error, CompactedError):
        if scope.registry.cached.feeds_watch(options):
            return too_old(error)
        return StatusError(410, "Expired", _COMPACTED)
    if isinstance(error, UnreadableError):
        return errors.internal(error.text)
    return error if isinstance(error, StatusError) else errors.internal(str(error))


def _pieces(entries: Iterable[Entry]) -> Iterator[Sequence[Entry]]:
    """Groups end with the entry that makes them `_PIECE` bytes long."""
    found: list[Entry] = []
    size = 0
    for entry in entries:
        found.append(entry)
        size += len(entry.value)
        if size >= _PIECE:
            yield found
            found, size = [], 0
    if found:
        yield found


class _Reminder:
    """Wakes a watch when a bookmark is due: every minute, and shortly before the end (cache_watcher.go).

    The timer sets a flag: a loop fires a little early, so that its clock does not show yet that the bookmark
    is due, and uvloop's handles for moments close by have no time.


    """

    def __init__(self, cursor: Watch, end: float) -> None:
        self.is_due = False
        self._cursor = cursor
        self._last = end - _LAST_BOOKMARK
        self._next = -math.inf  # loop time of the next bookmark
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None
        self.set()

    def set(self) -> None:
        now = self._loop.time()
        self.is_due = False
        self._timer = None
        if now < self._last and self._next < self._last:
            self._next = min(now + BOOKMARK_SECONDS, self._last)
            self._timer = self._loop.call_at(self._next, self._fire)

    def _fire(self) -> None:
        self.is_due = True
        self._cursor.request_progress()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


async def _follow(
    scope: Scope,
    wanted: Selection,
    cursor: Watch,
    since: int,
    encoder: "Encoder",
    reminder: _Reminder | None,
) -> AsyncIterator[bytes]:
    """Bookmarks come when `reminder` wakes the cursor.

    None has the revision at which the watch began (cache_watcher.go, process).


    """
    try:
        async for batch in cursor:
            await _fetch_conversions(scope, batch)
            lines, failure = _lines(batch, since, wanted, encoder)
            if lines:
                yield lines
            if failure is not None:
                raise failure
            if reminder is not None and reminder.is_due:
                reminder.set()
                if cursor.revision > since:
                    yield encoder.bookmark(cursor.revision, {})
    finally:
        if reminder is not None:
            reminder.cancel()


async def _fetch_conversions(scope: Scope, batch: Iterable[Event]) -> None:
    """Converts the states in a batch by a webhook; no call for most resources."""
    codec = scope.services.codec
    if codec.needs_webhook(scope.resource):
        states = [(event.value, event.revision) for event in batch]
        states += [
            (event.previous_value, event.previous) for event in batch if event.previous_value is not None
        ]
        await codec.fetch_conversions(scope.resource, states)


def _lines(
    batch: Iterable[Event], since: int, wanted: Selection, encoder: "Encoder"
) -> tuple[bytes, StatusError | None]:
    """Stops at the first object that this server cannot decode, and returns its error."""
    lines = bytearray()
    for event in batch:
        if event.revision > since:
            try:
                lines += encoder.lines(_changes(event, wanted))
            except UnreadableError as error:
                of_deletion = event.verb is Verb.DELETE and wanted.registry.reports_corruption
                return bytes(lines), deleted_unread(error, event.revision) if of_deletion else error
            except StatusError as error:
                return bytes(lines), error
    return bytes(lines), None


def _watches(scope: Scope) -> dict[Watch, None]:
    """Only watches of custom resources are listed, with their definition."""
    resource = scope.resource
    if isinstance(resource, CustomResource) and resource.definition is not None:
        return resource.definition.watches
    return {}


def _check_known(scope: Scope, options: ListOptions, since: int) -> None:
    """Raises 410 for a revision older than the cache that feeds the watch, which each server fills at its
    start: informers then list again, and see all objects as this server shows them (watch_cache.go,
    getAllEventsSinceLocked).
    """
    filled = scope.services.store.cached_since(scope.resource.storage_resource)
    if since < filled and scope.registry.cached.feeds_watch(options):
        raise CompactedError(since, filled)


def _open(scope: Scope, wanted: Selection, within: str | None, since: int) -> Watch:
    """A revision in the future begins now, and its events are held back until then."""
    store, resource = scope.services.store, scope.resource.storage_resource
    try:
        return store.watch(resource, within, wanted.name or None, since)
    except FutureRevisionError:
        return store.watch(resource, within, wanted.name or None, store.revision)


def _seconds(scope: Scope, options: ListOptions) -> float:
    if options.timeout_seconds:
        return float(min(options.timeout_seconds, MAX_SECONDS))
    return MIN_SECONDS * (1.0 + scope.services.environment.entropy.random())


def _changes(event: Event, wanted: Selection) -> Iterable[Change]:
    """With a selector, objects come and go as they match."""
    revision = event.revision
    if wanted.is_all:
        return (Change(_TYPES[event.verb], event.value, revision, revision),)
    was = event.previous_value is not None and wanted.matches(event.previous_value, event.previous)
    if event.verb is Verb.DELETE:
        return (Change(_DELETED, event.value, revision, revision),) if was else ()
    if wanted.matches(event.value, revision):
        return (Change(_MODIFIED if was else _ADDED, event.value, revision, revision),)
    if was and event.previous_value is not None:
        return (Change(_DELETED, event.previous_value, event.previous, revision),)
    return ()


class Encoder:
    """Encodes the lines of one watch; the header of a table comes once."""

    def __init__(self, request: Request, scope: Scope, form: Accepted) -> None:
        self._request = request
        self._scope = scope
        self._form = form
        self._kept = scope.services.encoded_events
        self._counted = scope.services.metrics.reads.watch(scope.resource)
        self._first = True

    def lines(self, changes: Iterable[Change]) -> bytes:
        line = self._line if self._form.convert else self._plain_line
        lines = [line(change) for change in changes]
        self._counted.sent(lines)
        return b"".join(lines)

    def bookmark(self, revision: int, annotations: Object) -> bytes:
        """A bookmark has nothing but a resourceVersion, and the fields that Go writes of its struct all the
        same.
        """
        metadata: Object = {"resourceVersion": str(revision)}
        if annotations:
            metadata["annotations"] = annotations
        resource = self._scope.resource
        obj: Object = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        if not resource.custom and not self._form.convert:
            obj = normalise(apply_merge_patch(obj, self._scope.registry.strategy.blank), resource.schema)
        return event_bytes("BOOKMARK", dumps(self._converted(obj)))

    def error(self, error: StatusError) -> bytes:
        return event_bytes("ERROR", dumps(error.status()))

    def _plain_line(self, change: Change) -> bytes:
        key = change.shown, change.type, form_of(self._scope.resource)
        line = self._kept.get(key)
        if line is None:
            line = event_bytes(change.type, self._object(change))
            if change.shown not in self._scope.services.store.shared_revisions:
                self._kept.put(key, line)
        return line

    def _line(self, change: Change) -> bytes:
        return event_bytes(change.type, dumps(self._converted(loads(self._object(change)))))

    def _object(self, change: Change) -> bytes:
        codec = self._scope.services.codec
        data = codec.served(self._scope.resource, change.value, change.revision)
        return with_revision(data, change.shown)

    def _converted(self, obj: Object) -> Object:
        if self._form.convert != "Table":
            return (
                responses.convert(self._request, self._scope, obj, self._form) if self._form.convert else obj
            )
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        first, self._first = self._first, False
        return responses.table(self._request, self._scope, [obj], self._form, metadata, header=first)

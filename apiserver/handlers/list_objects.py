"""LIST: the revision, the objects and the chunk to list.

Source: k8s.io/apiserver/pkg/endpoints/handlers/get.go (ListResource) and storage/cacher, 1.36.
"""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.caching.offload import TimeSlice, offload
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.media_types import Accepted
from kubeskew.apiserver.http.parameters import ListOptions
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.metrics import ListSeries
from kubeskew.apiserver.registry.generic import continue_tokens
from kubeskew.apiserver.registry.generic.cached_reads import read_of
from kubeskew.apiserver.registry.generic.revisions import (
    EXPIRED_LIST,
    parse_cached_revision,
    parse_revision,
    reach,
)
from kubeskew.apiserver.registry.generic.selection import Selection, selection
from kubeskew.apiserver.registry.requests import responses
from kubeskew.apiserver.registry.requests.scope import Scope
from kubeskew.apiserver.storage.encoding import list_head, loads, with_revision
from kubeskew.apiserver.storage.interfaces import CompactedError
from kubeskew.apiserver.storage.records import Entry, Key, Page
from kubeskew.apiserver.unreadable import UnreadableError
from kubeskew.apiserver.watch_cache_features import Read, Source

_PLAIN = Accepted("application/json")
_EXACT = frozenset({Read.LIMITED_AT, Read.EXACT, Read.CONTINUED})
_CHECKS = 1_000  # of objects against conditions, between two turns of the loop


class Listed(NamedTuple):
    """`cached` is True if upstream's watch cache answers the list, `looked_at` counts the objects that were
    read for it; `token` goes on after the page.

            The token is empty if nothing follows.


    """

    page: Page
    cached: bool
    looked_at: int
    token: str = ""


async def list_objects(request: Request, scope: Scope) -> Response:
    form = responses.form_of(request)
    watch_list = scope.services.features.reads.watch_list
    options = parameters.list_options(request, watch=False, watch_list=watch_list)
    wanted = await selection(request, scope.registry, options)
    try:
        listed = await listed_of(scope, options, wanted)
        _count(scope, options, listed)
        page, metadata = listed.page, metadata_of(scope, listed, wanted)
        if form == _PLAIN:
            response = Response(200, await _body(scope, page, metadata, wanted))
        else:
            size = sum(len(entry.value) for entry in page.entries)
            response = await offload(size, lambda: _converted(request, scope, page.entries, metadata, form))
    except UnreadableError as error:
        raise unreadable_list(scope, wanted.namespace, error) from None
    return await responses.compressed(request, response)


def _count(scope: Scope, options: ListOptions, listed: Listed) -> None:
    counted = _counted(scope)
    (counted.cached if listed.cached else counted.stored).add(listed.looked_at, len(listed.page.entries))
    if listed.cached and options.resource_version == "":
        counted.consistent += 1


def _counted(scope: Scope) -> ListSeries:
    return scope.services.metrics.reads.lists(scope.resource.storage_resource)


def unreadable_list(scope: Scope, namespace: str | None, error: UnreadableError) -> StatusError:
    """Looks for the objects that cannot be read again; `error` if there are none any more."""
    listed = scope.services.store.list(scope.resource.storage_resource, namespace).entries
    return scope.registry.unreadable_list(listed) or error


def _converted(
    request: Request, scope: Scope, entries: Sequence[Entry], metadata: Object, form: Accepted
) -> Response:
    """Stored bytes cannot be put together for these forms: tables, partial metadata, YAML."""
    items = [scope.services.codec.object(scope.resource, entry.value, entry.revision) for entry in entries]
    return responses.document(responses.convert_list(request, scope, items, metadata, form), form)


async def _body(
    scope: Scope, page: Page, metadata: Object, wanted: Selection
) -> bytes | AsyncIterator[bytes]:
    """Long lists come in pieces.

    An object that cannot be decoded is found before the first piece is sent.


    """
    services, resource = scope.services, scope.resource
    head = list_head(resource, metadata)
    if not page.entries and responses.omits_items(scope):
        return head.removesuffix(b',"items":[') + b"}\n"
    runs = await services.listed.runs(services.codec, resource, page.entries, keep=wanted.is_all)
    if len(runs) > 1:
        return _in_turns(head, runs)
    return head + b"".join(make() for make in runs)[1:] + b"]}\n"


async def _in_turns(head: bytes, runs: Sequence[Callable[[], bytes]]) -> AsyncIterator[bytes]:
    yield head + runs[0]()[1:]  # the first item needs no comma before it
    for make in runs[1:]:
        await asyncio.sleep(0)
        yield make()
    yield b"]}\n"


def metadata_of(scope: Scope, listed: Listed, wanted: Selection) -> Object:
    metadata: Object = {"resourceVersion": str(listed.page.revision)}
    if listed.token:
        metadata["continue"] = listed.token
        if wanted.is_all:
            metadata["remainingItemCount"] = listed.page.remaining
    elif scope.resource.custom:
        metadata["continue"] = ""  # upstream writes it for custom resources, which are maps
    return metadata


async def listed_of(scope: Scope, options: ListOptions, wanted: Selection) -> Listed:
    """Reads the page that resourceVersion, resourceVersionMatch, limit and continue mean; raises 400, 410,
    429, 500, 503, 504. What answers which list is a table in watch_cache_features.py.
    """
    single, store = wanted.is_single, scope.services.store
    where = _position(scope, options, wanted) if options.continue_token else None
    read = read_of(options, where and where.revision)
    cached = scope.registry.cached
    source = cached.source(read, limited=options.limit > 0, single=single)
    is_newest = read is Read.NEWEST or read is Read.CONTINUED_NOW
    exactly = read in _EXACT and not (read is Read.LIMITED_AT and single)
    if is_newest:
        monotonic = scope.services.environment.clock.monotonic
        begun = monotonic()
        revision = await store.refresh()
        _counted(scope).waits.observe(monotonic() - begun)
    else:
        revision = where.revision if where else 0 if read is Read.ANY else _parsed(scope, options, source)
    if cached.serves_list(options, source, selects=not wanted.is_all) and not cached.is_filled:
        await cached.check()
    if not is_newest and (source is Source.STORE or revision > store.revision):
        reads = scope.services.features.reads
        await reach(store, revision, source, exactly=exactly, translated=reads.times_out_future_lists)
    limit = 0 if single or (source is Source.CACHE and options.resource_version == "0") else options.limit
    if exactly and not (single and revision == store.revision):
        page, looked_at = await _at(scope, revision, limit, wanted, where)
    else:
        if scope.services.codec.needs_webhook(scope.resource):
            await fetch_conversions(scope, wanted.namespace)
        after = where.after if where else None
        page, looked_at = _single(scope, wanted) if single else await _selected(scope, after, limit, wanted)
        if source is Source.CACHE and page.last is not None and wanted.is_indexed:
            page = await _last_of_index(scope, page, wanted)
    if page.last is None:
        return Listed(page, source is Source.CACHE, looked_at)
    token = continue_tokens.token(page.revision, page.last, wanted.namespace, source)
    return Listed(page, source is Source.CACHE, looked_at, token)


def _position(scope: Scope, options: ListOptions, wanted: Selection) -> continue_tokens.Position:
    """Raises 400."""
    where = continue_tokens.position(options.continue_token, scope.resource, wanted.namespace)
    if options.resource_version not in {"", "0"}:
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    return where


def _parsed(scope: Scope, options: ListOptions, source: Source) -> int:
    """Raises 400, or 500 as old caches do."""
    if source is Source.CACHE and scope.services.features.reads.parse_failures:
        return parse_cached_revision(options.resource_version)
    return parse_revision(options.resource_version)


async def _last_of_index(scope: Scope, page: Page, wanted: Selection) -> Page:
    """A page of what an index of the cache found has no successor if no other object is found.

    Otherwise any object that follows makes one (cacher.go, GetList; registry/core/pod, Indexers).

    """
    following, _ = await _selected(scope, page.last, 1, wanted)
    return page if following.entries else Page(page.revision, page.entries)


async def _selected(scope: Scope, after: Key | None, limit: int, wanted: Selection) -> tuple[Page, int]:
    """Counts the objects that were compared with the selector, besides the page.

    Gives way to other requests while there are many.
    """
    store, resource, namespace = scope.services.store, scope.resource.storage_resource, wanted.namespace
    if wanted.is_all:
        page = store.list(resource, namespace, after, limit)
        return page, len(page.entries)
    first = store.list(resource, namespace, after, 1)
    count = first.remaining + len(first.entries)
    if count * wanted.terms <= _CHECKS:
        return store.list(resource, namespace, after, limit, wanted.filter), count
    indexed = await _indexed(scope, after, wanted)
    if indexed is not None and not 0 < limit <= len(indexed):  # else what follows has to be counted
        return Page(store.revision, indexed), count
    page = store.list(resource, namespace, after)  # entries do not change while others write
    found: list[Entry] = []
    time_slice, at_once = TimeSlice(), max(1, _CHECKS // wanted.terms)
    for start in range(0, len(page.entries), at_once):
        if time_slice.is_over:
            await time_slice.give_way()
        for position, entry in enumerate(page.entries[start : start + at_once], start):
            if wanted.matches_entry(entry):
                found.append(entry)
                if len(found) == limit:
                    remaining = len(page.entries) - position - 1
                    return Page(page.revision, found, entry.key if remaining else None, remaining), count
    return Page(page.revision, found), count


async def _indexed(scope: Scope, after: Key | None, wanted: Selection) -> list[Entry] | None:
    """The objects after `after` that are selected by the value of a label, in order; None without an index.

    Custom resources have none: webhooks may convert their labels.
    """
    if scope.resource.custom:
        return None
    candidates = await scope.registry.label_index.candidates(wanted.labels)
    if candidates is None:
        return None
    found = [
        entry
        for entry in candidates
        if (wanted.namespace is None or entry.key.namespace == wanted.namespace)
        and wanted.matches_entry(entry)
    ]
    found.sort(key=_order)
    if after is None:
        return found
    return found[bisect_right(found, _place(after), key=_order) :]


def _order(entry: Entry) -> tuple[str, str]:
    return _place(entry.key)


def _place(key: Key) -> tuple[str, str]:
    """Orders keys as the store does."""
    return f"{key.namespace}/", key.name


async def fetch_conversions(scope: Scope, namespace: str | None) -> None:
    """Converts by a webhook what is listed, before selectors compare it; no call for most resources."""
    if scope.services.codec.needs_webhook(scope.resource):
        entries = scope.services.store.list(scope.resource.storage_resource, namespace).entries
        await scope.services.codec.fetch_conversions(
            scope.resource, [(entry.value, entry.revision) for entry in entries]
        )


def _single(scope: Scope, wanted: Selection) -> tuple[Page, int]:
    store = scope.services.store
    entry = store.get(scope.registry.key(wanted.namespace or "", wanted.name))
    found = [entry] if entry is not None and wanted.matches_entry(entry) else []
    return Page(store.revision, found), int(entry is not None)


class _CountingFilter:
    """Counts the entries that it compares. For a selection by name, only the object of that name is read."""

    def __init__(self, wanted: Selection) -> None:
        self._wanted = wanted
        self._name = wanted.name if wanted.is_single else ""
        self.looked_at = 0

    def __call__(self, entry: Entry) -> bool:
        if self._name and entry.key.name != self._name:
            return False
        self.looked_at += 1
        return self._wanted.matches_entry(entry)


async def _at(
    scope: Scope, revision: int, limit: int, wanted: Selection, where: continue_tokens.Position | None
) -> tuple[Page, int]:
    """Reads the page at `revision`, from `where` on, and counts the objects that it compared."""
    store, resource, namespace = scope.services.store, scope.resource.storage_resource, wanted.namespace
    after = where.after if where else None
    if revision == store.revision:
        await fetch_conversions(scope, namespace)
        page, looked_at = await _selected(scope, after, limit, wanted)
        if page.revision == revision:  # nobody has written meanwhile
            return page, looked_at
    try:
        if scope.services.codec.needs_webhook(scope.resource):
            then = await store.list_at(revision, resource, namespace)
            await scope.services.codec.fetch_conversions(
                scope.resource, [(entry.value, entry.revision) for entry in then.entries]
            )
        counting = None if wanted.is_all else _CountingFilter(wanted)
        page = await store.list_at(revision, resource, namespace, after, limit, counting)
        return page, counting.looked_at if counting is not None else len(page.entries)
    except CompactedError:
        if where is None:
            raise errors.expired(EXPIRED_LIST) from None
        raise continue_tokens.ExpiredContinueError(continue_tokens.inconsistent_token(where)) from None


def objects(scope: Scope, entries: Sequence[Entry]) -> list[Object]:
    """For answers that are not plain lists: entries are decoded in the served version."""
    codec = scope.services.codec
    return [
        loads(with_revision(codec.served(scope.resource, entry.value, entry.revision), entry.revision))
        for entry in entries
    ]

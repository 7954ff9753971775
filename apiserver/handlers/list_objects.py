"""Handles LIST: finds the revision, the objects and the chunk to list.

Source: k8s.io/apiserver/pkg/endpoints/handlers/get.go (ListResource) and storage/cacher, 1.36.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.caching.offload import TimeSlice, offload
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.media_types import Accepted
from kubeskew.apiserver.http.parameters import EXACT, ListOptions
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.registry.generic import continue_tokens
from kubeskew.apiserver.registry.generic.revisions import EXPIRED_LIST, future_list, parse_revision, wait
from kubeskew.apiserver.registry.generic.selection import Selection, selection
from kubeskew.apiserver.registry.requests import rendering
from kubeskew.apiserver.registry.requests.scope import Scope
from kubeskew.apiserver.storage.encoding import list_head, loads, with_revision
from kubeskew.apiserver.storage.failures import CompactedError, FutureRevisionError
from kubeskew.apiserver.storage.records import Entry, Key, Page
from kubeskew.apiserver.unreadable import UnreadableError

_PLAIN = Accepted("application/json")
_CHECKS = 1_000  # of objects against conditions in one go


async def list_objects(request: Request, scope: Scope) -> Response:
    """Returns a list, or one chunk of it."""
    form = rendering.form_of(request)
    watch_list = scope.services.features.requests.watch_list
    options = parameters.list_options(request, watch=False, watch_list=watch_list)
    wanted = await selection(request, scope.registry, options)
    namespace = request.info.namespace or None
    try:
        page = await page_of(scope, namespace, options, wanted)
        _count(scope, namespace, options, wanted, page)
        metadata = metadata_of(scope, page, namespace, wanted)
        if form == _PLAIN:
            response = Response(200, await _body(scope, page, metadata, wanted))
        else:
            size = sum(len(entry.value) for entry in page.entries)
            response = await offload(size, lambda: _converted(request, scope, page.entries, metadata, form))
    except UnreadableError as error:
        raise unreadable_list(scope, namespace, error) from None
    return await rendering.compressed(request, response)


def _count(scope: Scope, namespace: str | None, options: ListOptions, wanted: Selection, page: Page) -> None:
    """Counts a list, with how many objects it looked at."""
    reads, resource = scope.services.metrics.reads, scope.resource.storage_resource
    fetched = len(page.entries)
    if not (wanted.is_all or wanted.name):
        first = scope.services.store.list(resource, namespace, None, 1)
        fetched = max(fetched, first.remaining + len(first.entries))
    cached = scope.registry.cached.answers_list(options, selects=not wanted.is_all)
    reads.listed(resource, fetched, len(page.entries), cached=cached)
    if cached and options.resource_version == "":
        reads.read_consistently(resource)


def unreadable_list(scope: Scope, namespace: str | None, error: UnreadableError) -> StatusError:
    """Returns the answer to a list that met `error`; which objects cannot be read is found out anew."""
    listed = scope.services.store.list(scope.resource.storage_resource, namespace).entries
    return scope.registry.unreadable_list(listed) or error


def _converted(
    request: Request, scope: Scope, entries: Sequence[Entry], metadata: Object, form: Accepted
) -> Response:
    """Returns the list in a form that is not its stored bytes put together."""
    items = [scope.services.codec.object(scope.resource, entry.value, entry.revision) for entry in entries]
    return rendering.document(rendering.convert_list(request, scope, items, metadata, form), form)


async def _body(
    scope: Scope, page: Page, metadata: Object, wanted: Selection
) -> bytes | AsyncIterator[bytes]:
    """Yields the list as bytes; a long one comes in pieces.

    What cannot be decoded is found before the first piece is sent.
    """
    services, resource = scope.services, scope.resource
    head = list_head(resource, metadata)
    if not page.entries and rendering.omits_items(scope):
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


def metadata_of(scope: Scope, page: Page, namespace: str | None, wanted: Selection) -> Object:
    """Returns the metadata of a list that is a page."""
    metadata: Object = {"resourceVersion": str(page.revision)}
    if page.last is not None:
        metadata["continue"] = continue_tokens.token(page.revision, page.last, namespace)
        if wanted.is_all:
            metadata["remainingItemCount"] = page.remaining
    elif scope.resource.custom:
        metadata["continue"] = ""  # upstream writes it for custom resources, which are maps
    return metadata


async def page_of(scope: Scope, namespace: str | None, options: ListOptions, wanted: Selection) -> Page:
    """Returns the page that resourceVersion, resourceVersionMatch, limit and continue mean; raises 400, 410,
    429, 504.
    """
    store = scope.services.store
    single = bool(wanted.name) and bool(namespace or not scope.resource.namespaced)
    if options.continue_token and not single:
        return await _continued(scope, namespace, options, wanted)
    revision = parse_revision(options.resource_version)
    # A limited list at a revision without a match is exact (upstream's legacy rule).
    is_exact = bool(revision and options.limit and not options.match and not single)
    if is_exact or options.match == EXACT:
        limit = 0 if single else options.limit
        return await _at(scope, namespace, revision, limit, wanted, None)
    if options.resource_version == "":
        monotonic = scope.services.environment.clock.monotonic
        begun = monotonic()
        await store.refresh()
        scope.services.metrics.reads.waited(scope.resource.storage_resource, monotonic() - begun)
    else:
        await wait(store, revision)
    if scope.registry.cached.answers_list(options, selects=not wanted.is_all):
        await scope.registry.cached.check()
    await fetch_conversions(scope, namespace)
    if single:
        return _single(scope, namespace, wanted)
    limit = 0 if _is_unlimited(scope, options) else options.limit
    return await _selected(scope, namespace, None, limit, wanted)


def _is_unlimited(scope: Scope, options: ListOptions) -> bool:
    """Decides whether upstream's watch cache answers and takes no notice of the limit; events have no such
    cache.
    """
    return options.resource_version == "0" and scope.resource.storage_resource != "events"


async def _selected(
    scope: Scope, namespace: str | None, after: Key | None, limit: int, wanted: Selection
) -> Page:
    """Returns a page of the objects of now. Others have their turn while many are held against a selector."""
    store, resource = scope.services.store, scope.resource.storage_resource
    if wanted.is_all:
        return store.list(resource, namespace, after, limit)
    first = store.list(resource, namespace, after, 1)
    if (first.remaining + 1) * wanted.terms <= _CHECKS:
        return store.list(resource, namespace, after, limit, wanted.filter)
    page = store.list(resource, namespace, after)  # entries do not change, whatever is written meanwhile
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
                    return Page(page.revision, found, entry.key if remaining else None, remaining)
    return Page(page.revision, found)


async def fetch_conversions(scope: Scope, namespace: str | None) -> None:
    """Have a webhook convert what is listed, before selectors look at it; nothing for most resources."""
    if scope.services.codec.needs_webhook(scope.resource):
        entries = scope.services.store.list(scope.resource.storage_resource, namespace).entries
        await scope.services.codec.fetch_conversions(
            scope.resource, [(entry.value, entry.revision) for entry in entries]
        )


def _single(scope: Scope, namespace: str | None, wanted: Selection) -> Page:
    store = scope.services.store
    entry = store.get(scope.registry.key(namespace or "", wanted.name))
    found = [entry] if entry is not None and wanted.matches_entry(entry) else []
    return Page(store.revision, found)


async def _continued(scope: Scope, namespace: str | None, options: ListOptions, wanted: Selection) -> Page:
    resource = scope.resource.storage_resource
    where = continue_tokens.position(options.continue_token, resource, namespace)
    if options.resource_version not in {"", "0"}:
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    revision = where.revision if where.revision > 0 else await scope.services.store.refresh()
    snapshots = scope.services.features.requests.list_snapshots
    limit = 0 if snapshots and _is_unlimited(scope, options) else options.limit
    try:
        return await _at(scope, namespace, revision, limit, wanted, where.after)
    except errors.StatusError as error:
        if error.reason != "Expired":
            raise
        raise continue_tokens.ExpiredContinueError(
            continue_tokens.token(-1, where.after, namespace)
        ) from None


async def _at(
    scope: Scope,
    namespace: str | None,
    revision: int,
    limit: int,
    wanted: Selection,
    after: Key | None,
) -> Page:
    """Returns a page of the objects as they were at `revision`."""
    store, resource = scope.services.store, scope.resource.storage_resource
    features = scope.services.features.requests
    if features.list_snapshots:
        await wait(store, revision)
    elif revision > (newest := await store.refresh()):
        raise future_list(revision, newest, told=features.tells_future_lists)
    if revision == store.revision:
        await fetch_conversions(scope, namespace)
        return await _selected(scope, namespace, after, limit, wanted)
    try:
        if scope.services.codec.needs_webhook(scope.resource):
            then = await store.list_at(revision, resource, namespace)
            await scope.services.codec.fetch_conversions(
                scope.resource, [(entry.value, entry.revision) for entry in then.entries]
            )
        return await store.list_at(revision, resource, namespace, after, limit, wanted.filter)
    except CompactedError:
        raise errors.expired(EXPIRED_LIST) from None
    except FutureRevisionError as error:
        raise errors.too_large_resource_version(error.asked, error.current) from None


def objects(scope: Scope, entries: Sequence[Entry]) -> list[Object]:
    """Returns entries as objects of the served version (for answers that are not plain lists)."""
    codec = scope.services.codec
    return [
        loads(with_revision(codec.served(scope.resource, entry.value, entry.revision), entry.revision))
        for entry in entries
    ]

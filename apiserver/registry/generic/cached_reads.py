"""Decides what the watch cache upstream answers, and what these requests get while it cannot be filled.

That cache holds all objects of a resource. One that cannot be read keeps it from being filled, so that lists
and watches of the whole resource fail, in any namespace. A server here needs no such cache: it keeps the keys
of the objects that cannot be read.

Source: k8s.io/apiserver/pkg/storage/cacher (cacher.go, delegator.go, ready.go, util.go), 0.26 to 0.36, and
KEP-4568.
"""

import asyncio
import math
from collections.abc import Callable, Iterable
from datetime import datetime

from kubeskew.apimachinery.errors import StatusError, retry_later, service_unavailable
from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.caching.offload import TimeSlice
from kubeskew.apiserver.http.parameters import EXACT, NOT_OLDER_THAN, ListOptions
from kubeskew.apiserver.registry.generic.services import RegistryServices
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.unreadable import UnreadableError
from kubeskew.apiserver.watch_cache_features import Read, Source, WatchCacheFeatures, has_watch_cache

_MANY = 10_000  # changed keys, after which all objects are looked at again instead
_GROWTH, _LONGEST = 0.06, 30  # of the time that clients have to wait
_ENOUGH = 60.0  # seconds after which it is the longest


def read_of(options: ListOptions, continued_at: int | None) -> Read:
    """`continued_at` is the revision of the list's continue token, -1 for now."""
    if continued_at is not None:
        return Read.CONTINUED if continued_at > 0 else Read.CONTINUED_NOW
    if options.match == EXACT:
        return Read.EXACT
    if options.resource_version in {"", "0"}:
        return Read.ANY if options.resource_version else Read.NEWEST
    limited = options.limit > 0 and options.match != NOT_OLDER_THAN
    return Read.LIMITED_AT if limited else Read.NOT_OLDER


class CachedReads:
    """Objects of a built-in resource that cannot be read are known here, at the cost of what changes.

    `unreadable_list` returns the answer to a list of entries, None if all of them can be read.
    """

    def __init__(
        self,
        services: RegistryServices,
        resource: Resource,
        unreadable_list: Callable[[Iterable[Entry]], StatusError | None],
    ) -> None:
        self._services = services
        self._resource = resource
        self._unreadable_list = unreadable_list
        self._changed: dict[Key, None] | None = None  # None: all may have
        self._follows = False
        self._unreadable: dict[Key, None] = {}
        self._since: datetime | None = None  # when the first of these was found
        self._moved = asyncio.Event()  # something changed
        self._examining = asyncio.Lock()

    # --- which requests ------------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        return has_watch_cache(self._resource.storage_resource)

    def source(self, read: Read, *, limited: bool, single: bool) -> Source:
        """`single`: the list is of one name, of which there is one object at most."""
        if not self.exists:
            return Source.STORE
        return self._features.source(read, limited=limited, single=single)

    def serves_list(self, options: ListOptions, source: Source, *, selects: bool) -> bool:
        """True means that a list waits for the cache to be filled, or fails with it."""
        if source is Source.STORE or self._resource.custom:
            return False
        if self._features.refuses_unfilled:
            return selects or not options.limit
        return options.resource_version != "0"

    def serves_get(self, revision: int) -> bool:
        """A get that does not wait for the cache to be filled is answered by the store until then."""
        return (
            self.exists and not self._resource.custom and not self._features.refuses_unfilled and revision > 0
        )

    def serves_watch(self, options: ListOptions) -> bool:
        """Watches of custom resources neither wait for the cache nor fail with it."""
        return not self._resource.custom and self.feeds_watch(options)

    def feeds_watch(self, options: ListOptions) -> bool:
        """A watch that is fed by a cache gets no event from before it was filled."""
        if not self.exists:
            return False
        from_store = options.resource_version == "" and options.send_initial_events is None
        return not (from_store and self._features.watches_from_store)

    @property
    def _features(self) -> WatchCacheFeatures:
        return self._services.features.reads

    # --- what they get -------------------------------------------------------------------------------------

    async def check(self, seconds: float | None = None) -> None:
        """Since 1.31 a cache that could not be filled raises 429; before, this waits until it can, for
        `seconds` at most if they are given, and raises 503 then."""
        if not await self._is_failing():
            return
        if self._features.refuses_unfilled:
            raise self._refusal()
        try:
            async with asyncio.timeout(seconds):
                while await self._is_failing():
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            raise service_unavailable("context deadline exceeded") from None

    def _refusal(self) -> StatusError:
        text, seconds = "storage is (re)initializing", 1
        if self._features.reports_failure:
            why = self._unreadable_list(self._entries())
            text += f": failed to list {self._type_name()}: {why.message}" if why is not None else ""
            now = self._services.environment.clock.now()
            down = (now - (self._since or now)).total_seconds()
            seconds = int(min(_LONGEST, max(1.0, math.exp(_GROWTH * min(down, _ENOUGH)))))
        return retry_later(text, seconds)

    def _type_name(self) -> str:
        resource = self._resource
        return f"*{resource.group.partition('.')[0] or 'core'}.{resource.kind}"

    def _entries(self) -> list[Entry]:
        store = self._services.store
        return [entry for key in sorted(self._unreadable) if (entry := store.get(key)) is not None]

    # --- which objects -------------------------------------------------------------------------------------

    @property
    def is_filled(self) -> bool:
        return self._changed == {} and not self._unreadable and not self._examining.locked()

    async def _is_failing(self) -> bool:
        if self.is_filled:
            return False
        async with self._examining:
            if self._changed is None or self._changed:
                await self._examine()
            for key in list(self._unreadable):  # few: each is tried again
                self._note_readability(key)
        if not self._unreadable:
            self._since = None
        elif self._since is None:
            self._since = self._services.environment.clock.now()
        return bool(self._unreadable)

    async def _examine(self) -> None:
        store, resource = self._services.store, self._resource.storage_resource
        if not self._follows:
            store.follow(resource, self._note_change)
            self._follows = True
        changed, self._changed = self._changed, {}
        keys = changed if changed is not None else [entry.key for entry in store.list(resource).entries]
        time_slice = TimeSlice()
        for key in keys:
            if time_slice.is_over:
                await time_slice.give_way()
            self._note_readability(key)

    def _note_change(self, key: Key) -> None:
        self._moved.set()
        if self._changed is not None:
            self._changed[key] = None
            if len(self._changed) > _MANY:
                self._changed = None

    def _note_readability(self, key: Key) -> None:
        services = self._services
        entry = services.store.get(key)
        try:
            if entry is not None:
                services.codec.served(self._resource, entry.value, entry.revision)
        except UnreadableError:
            self._unreadable[key] = None
        else:
            self._unreadable.pop(key, None)

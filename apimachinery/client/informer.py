"""Informers: a local copy of a collection, kept current by list and watch; a factory shares them.

The objects handed out are shared by everyone in the process: treat them as read-only and copy
(`copy.deepcopy`) before a change.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, APIClient, FailureLog
from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Key, Object, object_key
from kubeskew.apimachinery.periods import DEFAULT_PERIODS, Periods

log = logging.getLogger(__name__)

# Parts of the errors for objects of a version unknown to the server: the store's (500), and that of a watch
# cache that cannot be filled (429, since 1.31); only later releases say why.
_UNDECODABLE = ("is registered for version", "storage is (re)initializing")
_SHORT_WATCH_SECONDS = 1.0  # a watch without events that ends sooner is treated as a failure

# Answers after which only a fresh list helps: a position the server cannot serve (410 compacted, 504 in the
# future, 400 not understood), or a resource it does not serve at the moment (404).
_POSITION_LOST = (400, 404, 410, 504)

_FAILURES = (*CONNECTION_ERRORS, StatusError, orjson.JSONDecodeError)

Objects = list[Object]
Tasks = list["asyncio.Task[None]"]
IndexFunction = Callable[[Object], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Handler:
    """Callbacks for changes. They must be synchronous and quick; usually they add to a queue."""

    added: Callable[[Object], None] | None
    updated: Callable[[Object, Object], None] | None
    deleted: Callable[[Object], None] | None


class _Index:
    def __init__(self, function: IndexFunction) -> None:
        self._function = function
        self._keys: dict[str, dict[Key, None]] = {}  # in order of arrival

    def insert(self, key: Key, obj: Object) -> None:
        for value in self._function(obj):
            self._keys.setdefault(value, {})[key] = None

    def remove(self, key: Key, obj: Object) -> None:
        for value in self._function(obj):
            keys = self._keys.get(value)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del self._keys[value]

    def keys(self, value: str) -> Iterable[Key]:
        return self._keys.get(value, ())


class Informer:
    """Follows one collection. Start it inside a running loop; stop it before the client is closed.

    Objects that are listed again are reported as updated, also those that did not change. Source:
    k8s.io/client-go/tools/cache/controller.go, processDeltas (1.31), processReplacedAllInfo (1.36).
    """

    def __init__(
        self,
        client: APIClient,
        ref: Ref,
        clock: Clock,
        namespace: str = "",
        field_selector: str = "",
        label_selector: str = "",
        *,
        entropy: Entropy | None = None,
        metadata_only: bool = False,
        trimmed: bool = False,
        periods: Periods = DEFAULT_PERIODS,
    ) -> None:
        """`trimmed`: without managedFields, which are often the larger part of an object."""
        self.ref = ref
        self._client = client
        self._clock = clock
        self._entropy = entropy
        self._scope = (namespace, label_selector, field_selector)
        self._metadata_only = metadata_only
        self._trimmed = trimmed
        self._objects: dict[Key, Object] = {}
        self._namespaces: dict[str, dict[str, Object]] = {}
        self._indexes: dict[str, _Index] = {}
        self._handlers: list[Handler] = []
        self._synced = asyncio.Event()
        self._settled = asyncio.Event()
        self._unserved = False
        self._forbidden = False
        self._failure = ""
        self._state_handlers: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None
        self._resource_version = ""
        self._periods = periods
        self._backoff = periods.reflector_first
        self._paused = -math.inf  # the end of the last pause, by the monotonic clock
        self._well = False  # it has been answered since then
        self._failures = FailureLog(log, clock)

    # -- reading

    def get(self, namespace: str, name: str) -> Object | None:
        return self._objects.get((namespace, name))

    def list(self, namespace: str | None = None) -> Objects:
        if namespace is None:
            return [*self._objects.values()]
        return [*self._namespaces.get(namespace, {}).values()]

    def by_index(self, name: str, value: str) -> Objects:
        return [self._objects[key] for key in self._indexes[name].keys(value)]

    def add_index(self, name: str, function: IndexFunction) -> None:
        """Indexes objects by the values that `function` returns; adding a name again changes nothing."""
        if name in self._indexes:
            return
        index = self._indexes[name] = _Index(function)
        for key, obj in self._objects.items():
            index.insert(key, obj)

    def add_handler(
        self,
        added: Callable[[Object], None] | None = None,
        updated: Callable[[Object, Object], None] | None = None,
        deleted: Callable[[Object], None] | None = None,
    ) -> None:
        """Adds callbacks for changes; objects that are there already are reported as added at once."""
        handler = Handler(added, updated, deleted)
        self._handlers.append(handler)
        if added is not None:
            for obj in self.list():
                _call(added, obj)

    def add_state_handler(self, changed: Callable[[], None]) -> None:
        """Adds a callback for the first list, for each new kind of failure, and for the recovery from it."""
        self._state_handlers.append(changed)

    # -- life

    @property
    def has_synced(self) -> bool:
        return self._synced.is_set()

    @property
    def failure(self) -> str:
        """Text of the server's last error for a list or watch; empty once one has succeeded."""
        return self._failure

    @property
    def is_unserved(self) -> bool:
        """True if the server, at the last request, did not have the resource or could not decode its objects.

        Nothing will come until it can, perhaps not before another version of it runs.
        """
        return self._unserved

    @property
    def cannot_list(self) -> bool:
        """True if another version of the server may be needed: for the resource, or for its roles."""
        return self._unserved or (self._forbidden and not self.has_synced)

    @property
    def resource_version(self) -> str:
        """Revision up to which the copy is current."""
        return self._resource_version

    def start(self) -> None:
        """Begins to follow the collection; starting twice changes nothing."""
        if self._task is None:
            self._task = asyncio.create_task(self._follow(), name=f"informer {self.ref}")

    async def synced(self) -> None:
        """Waits until the first list has been delivered to the handlers."""
        await self._synced.wait()

    async def settled(self) -> None:
        """Waits until the first list has been delivered, or the resource proved to be unserved."""
        await self._settled.wait()

    async def stop(self) -> None:
        """Ends it for good. The copy can still be read, but handlers are not called any more."""
        await asyncio.gather(*self.cancel(), return_exceptions=True)

    def cancel(self) -> Tasks:
        """Does as `stop` without waiting for the task, which it returns."""
        tasks, self._task = [self._task] if self._task is not None else [], None
        self._handlers.clear()
        self._state_handlers.clear()
        for task in tasks:
            task.cancel()
        return tasks

    async def _follow(self) -> None:
        while True:
            try:
                if not self._resource_version:
                    await self._relist()
                await self._watch()
            except _FAILURES as error:
                await self._recover(error)

    async def _recover(self, error: Exception) -> None:
        listing = not self._resource_version
        self._unserved = isinstance(error, StatusError) and (
            error.code == 404
            or (error.code in (429, 500) and any(text in error.message for text in _UNDECODABLE))
        )
        self._forbidden = isinstance(error, StatusError) and error.code == 403
        if self._unserved:
            self._settled.set()
        if isinstance(error, StatusError) and error.code in _POSITION_LOST:
            self._resource_version = ""
            if error.code == 410:
                log.debug("%s: relisting: %s", self.ref, error)
                return
        if isinstance(error, StatusError):
            self._report(error, listing)
            self._set_state(self.has_synced, error.message)
        log.debug("%s: retrying in %.2f s: %s", self.ref, self._backoff, error)
        await self._pause()

    def _report(self, error: StatusError, listing: bool) -> None:
        """Logs an error with the text of client-go's reflector, in which a list is part of a watch."""
        kind = f"*{self.ref.version}.{self.ref.kind}"
        failed = f"failed to list {kind}: " if listing else ""
        self._failures.failed(f"Failed to watch {kind}: {failed}{error}")

    async def _pause(self) -> None:
        reset = self._periods.reflector_reset
        if self._clock.monotonic() - self._paused >= reset if reset else self._well:
            self._backoff = self._periods.reflector_first
        self._well = False
        # At random, so that many informers do not return at the same time.
        jitter = self._periods.reflector_jitter
        share = jitter * (1.0 + self._entropy.random()) if self._entropy is not None else 1.0
        await self._clock.sleep(self._backoff * share)
        self._backoff = min(self._backoff * 2, self._periods.reflector_longest)
        self._paused = self._clock.monotonic()

    async def _relist(self) -> None:
        found = await self._client.list(self.ref, *self._scope, metadata_only=self._metadata_only)
        self._replace({object_key(obj): obj for obj in found["items"]})
        self._resource_version = found["metadata"]["resourceVersion"]
        self._well = True
        self._unserved = False
        had_synced = self.has_synced
        self._synced.set()
        self._settled.set()
        self._set_state(had_synced, "")

    def _set_state(self, had_synced: bool, failure: str) -> None:
        if (had_synced, self._failure) == (self.has_synced, failure):
            return
        self._failure = failure
        for changed in self._state_handlers:
            _call(changed)

    async def _watch(self) -> None:
        began, quiet = self._clock.monotonic(), True
        events = self._client.watch(
            self.ref,
            *self._scope,
            resource_version=self._resource_version,
            metadata_only=self._metadata_only,
        )
        async for kind, obj in events:
            if quiet:
                quiet = False
                self._well = True
                self._failures.succeeded()
                self._set_state(self.has_synced, "")
            self._resource_version = obj["metadata"]["resourceVersion"]
            if kind == "DELETED":
                self._remove(object_key(obj), obj)
            elif kind != "BOOKMARK":
                self._put(object_key(obj), obj)
        if quiet and self._clock.monotonic() - began < _SHORT_WATCH_SECONDS:
            await self._pause()

    # -- the copy

    def _replace(self, current: dict[Key, Object]) -> None:
        for key in [key for key in self._objects if key not in current]:
            self._remove(key, self._objects[key])
        for key, obj in current.items():
            self._put(key, obj)

    def _put(self, key: Key, obj: Object) -> None:
        if self._trimmed:
            obj["metadata"].pop("managedFields", None)
        old = self._objects.get(key)
        if old is not None and old["metadata"].get("uid") != obj["metadata"].get("uid"):
            # Deleted and created again while the watch was broken.
            self._remove(key, old)
            old = None
        if old is not None:
            for index in self._indexes.values():
                index.remove(key, old)
        self._objects[key] = obj
        self._namespaces.setdefault(key[0], {})[key[1]] = obj
        for index in self._indexes.values():
            index.insert(key, obj)
        self._notify(old, obj)

    def _remove(self, key: Key, last: Object) -> None:
        """Removes an object; `last` is its final state as the server sent it, else the newest known."""
        old = self._objects.pop(key, None)
        if old is None:
            return
        names = self._namespaces[key[0]]
        names.pop(key[1])
        if not names:
            del self._namespaces[key[0]]
        for index in self._indexes.values():
            index.remove(key, old)
        for handler in self._handlers:
            if handler.deleted is not None:
                _call(handler.deleted, last)

    def _notify(self, old: Object | None, new: Object) -> None:
        for handler in self._handlers:
            if old is None:
                if handler.added is not None:
                    _call(handler.added, new)
            elif handler.updated is not None:
                _call(handler.updated, old, new)


def _call(callback: Callable[..., None], *arguments: Any) -> None:
    try:
        callback(*arguments)
    except Exception:
        # A failing handler must not cost the others their events.
        log.exception("informer callback failed")


class InformerFactory:
    """Holds one informer per collection and selection, shared by all that need it."""

    def __init__(
        self,
        client: APIClient,
        clock: Clock,
        entropy: Entropy | None = None,
        *,
        trimmed: bool = False,
        periods: Periods = DEFAULT_PERIODS,
    ) -> None:
        self._client = client
        self._periods = periods
        self._trimmed = trimmed
        self._clock = clock
        self._entropy = entropy
        self._informers: dict[tuple[Ref, str, str, str], Informer] = {}
        self._followed: list[Informer] = []
        self._ending: dict[asyncio.Task[None], None] = {}

    def informer(
        self, ref: Ref, namespace: str = "", field_selector: str = "", label_selector: str = ""
    ) -> Informer:
        wanted = (ref, namespace, field_selector, label_selector)
        if wanted not in self._informers:
            self._informers[wanted] = self._new(*wanted)
        return self._informers[wanted]

    def _new(self, ref: Ref, *scope: str) -> Informer:
        return Informer(
            self._client,
            ref,
            self._clock,
            *scope,
            entropy=self._entropy,
            trimmed=self._trimmed,
            periods=self._periods,
        )

    def follow(self, ref: Ref) -> Informer:
        """Starts an informer that is needed for a while.

        Nobody else gets it, and nothing waits until it has synced.
        """
        informer = self._new(ref)
        self._followed.append(informer)
        informer.start()
        return informer

    def unfollow(self, informer: Informer) -> None:
        self._followed.remove(informer)
        ending = asyncio.create_task(informer.stop(), name=f"end of informer {informer.ref}")
        self._ending[ending] = None
        ending.add_done_callback(self._ending.pop)

    def existing(self, ref: Ref) -> Informer | None:
        """The informer of a whole collection, if `informer` was called for it."""
        return self._informers.get((ref, "", "", ""))

    @property
    def has_synced(self) -> bool:
        return all(informer.has_synced for informer in self._informers.values())

    @property
    def unserved(self) -> list[Ref]:
        """Lists the resources that the server does not have, cannot decode, or has no role for."""
        return [informer.ref for informer in self._informers.values() if informer.cannot_list]

    def start(self) -> None:
        for informer in self._informers.values():
            informer.start()

    async def synced(self) -> None:
        await asyncio.gather(*(informer.synced() for informer in self._informers.values()))

    async def settled(self) -> None:
        """Waits until everything has been listed that the server has, by informers added meanwhile, too."""
        waited = 0
        while waited < len(self._informers):
            waited = len(self._informers)
            await asyncio.gather(*(informer.settled() for informer in [*self._informers.values()]))

    async def stop(self) -> None:
        informers = (*self._informers.values(), *self._followed)
        ending = [task for informer in informers for task in informer.cancel()]
        await asyncio.gather(*ending, *self._ending, return_exceptions=True)

"""One resource, of any kind, has one registry: keys, strategies, contexts, reads, and the way to the store.

The verbs that write are functions in `create`, `update` and `delete`, which get a WriteRequest and give a
WriteResult; `commit` and `commit_removal` hand what they make to the store. Every write of this server goes
this way. What the server keeps of the objects it serves (`Codec`: in which form; `Registry`: labels and
fields) learns of each write here, so that no writer can leave it out, and watchers get the bytes without
decoding them.

A write is tried on the object as this server knows it, and again while that proves out of date. What is at
hand is only a suggestion; it is read again before an error is believed. As upstream, nothing bounds the
repetitions: each follows a write of somebody else. A patch has no bound of its own around them: the five
attempts of MaxRetryWhenPatchConflicts were gone from upstream's patch.go before 1.26.

Source: k8s.io/apiserver/pkg/storage/etcd3/store.go (Create, GuaranteedUpdate, Delete) and
registry/generic/registry/dryrun.go, 1.36.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kubeskew.apimachinery.errors import (
    GroupKind,
    GroupResource,
    StatusError,
    bad_request,
    internal,
    not_found,
)
from kubeskew.apimachinery.field import show
from kubeskew.apimachinery.names import path_segment
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.admission import Attributes
from kubeskew.apiserver.apply.managedfields import FieldSet
from kubeskew.apiserver.caching.offload import offload
from kubeskew.apiserver.caching.store_cache import TwoGenerationCache
from kubeskew.apiserver.decoding.protobuf.sizes import stored_size
from kubeskew.apiserver.registry.generic.cached_reads import CachedReads
from kubeskew.apiserver.registry.generic.field_managers import field_manager
from kubeskew.apiserver.registry.generic.label_index import LabelIndex
from kubeskew.apiserver.registry.generic.services import RegistryServices
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext, strategies_of
from kubeskew.apiserver.storage.encoding import loads
from kubeskew.apiserver.storage.interfaces import Others, RevisionMismatchError, StorageError, Store
from kubeskew.apiserver.storage.records import Author, Change, Entry, Event, Key, Verb
from kubeskew.apiserver.unreadable import (
    UnreadableError,
    corrupt,
    failed_list,
    known_object,
    object_of,
    stored_path,
)
from kubeskew.apiserver.user import User

# etcd's --max-request-bytes and its client's limit; what a request has besides key and value.
_MOST_STORED, _MOST_SENT, _REQUEST_BYTES = 3 << 19, 2 << 20, 64


@dataclass(slots=True)
class WriteRequest:
    """Texts put into `warnings` reach the client as Warning headers."""

    user: User
    author: Author
    verb: str = field(kw_only=True)  # of the request
    namespace: str = ""
    subresource: str = ""
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)
    requested: Resource | None = None  # in the version of the request
    options: Object = field(default_factory=dict)  # CreateOptions, PatchOptions, …, as the client gave them
    annotations: dict[str, str] = field(default_factory=dict)  # for the audit event
    admitted: bool = False  # admission has seen what this write is a part of (an eviction, a scale)
    collection: bool = False  # one of many: the request names no object
    size: int = 0  # of the request's body, in bytes
    given: Callable[[], Any] | None = None  # returns the object as it was sent, or made by a patch

    @property
    def group(self) -> str:
        """The group of the request may differ from the hub's."""
        return self.requested.group if self.requested is not None else ""


class WriteResult(NamedTuple):
    """The object is in the hub version.

    `value` is what the log holds (without resourceVersion), None for a dry run; `revision` its revision, 0
    for what a dry run would have created.
    """

    obj: Object
    revision: int
    value: bytes | None = None
    created: bool = False
    deleted: bool = False


log = logging.getLogger(__name__)

_REMEMBERED = 100_000  # labels and fields of that many revisions, twice


class Selectable(NamedTuple):
    """Selectors look at these values."""

    labels: Mapping[str, str]
    fields: Mapping[str, str]


class Registry:
    """`resource` is the hub version."""

    def __init__(self, services: RegistryServices, resource: Resource) -> None:
        self.services = services
        self.resource = resource
        self.strategy, status = strategies_of(resource, services.environment.version.preview)
        self._subresources: dict[str, Strategy] = {"": self.strategy, "status": status}
        for name, strategy in self.strategy.subresources.items():
            self._subresources[name] = strategy()
        self._selectable: TwoGenerationCache[int, Selectable] = TwoGenerationCache(_REMEMBERED)
        self.label_index = LabelIndex(services.store, resource.storage_resource, self._labels)
        self._under_way: dict[str, Object] = {}  # by uid
        self._checking = asyncio.Lock()
        self._reset: dict[str, FieldSet] = {}
        self.field_manager = field_manager(services, resource)
        self.cached = CachedReads(services, resource, self.unreadable_list)

    @property
    def kind(self) -> GroupKind:
        return self.resource.group_kind

    def strategy_of(self, subresource: str) -> Strategy:
        return self._subresources.get(subresource, self.strategy)

    def requested_resource(self, write: WriteRequest) -> GroupResource:
        """Answers name the resource of the request (events are in two groups)."""
        return (write.requested or self.resource).group_resource

    def key(self, namespace: str, name: str) -> Key:
        return Key(self.resource.storage_resource, namespace if self.resource.namespaced else "", name)

    def requested_key(self, namespace: str, name: str) -> Key:
        """Raises 400 for a name that no object can have."""
        if texts := path_segment(name):
            raise bad_request(f"Name parameter invalid: {show(name)}: {';'.join(texts)}")
        return self.key(namespace, name)

    # --- reading -------------------------------------------------------------------------------------------

    def entry(self, namespace: str, name: str) -> Entry:
        """Raises 400 and 404."""
        entry = self.services.store.get(self.requested_key(namespace, name))
        if entry is None:
            raise not_found(self.resource.group_resource, name)
        return entry

    async def fetch_conversion(self, entry: Entry | None) -> None:
        """Afterwards `object` can read the entry, of versions that a webhook converts."""
        if self.resource.custom and entry is not None:
            await self.services.codec.fetch_conversions(self.resource, [(entry.value, entry.revision)])

    def object(self, entry: Entry) -> Object:
        """The object is fresh, in the hub version, with its resourceVersion."""
        try:
            return self.services.codec.object(self.resource, entry.value, entry.revision)
        except UnreadableError as error:
            raise self.unreadable(entry, error) from None

    def unreadable(self, entry: Entry, error: UnreadableError) -> StatusError:
        key = entry.key
        log.warning("%s %s at %d cannot be read: %s", key.resource, key.path, entry.revision, error.text)
        if not self.reports_corruption:
            return error
        return internal(corrupt(self.stored_path(key), error, entry.revision))

    def unreadable_list(self, entries: Iterable[Entry]) -> StatusError | None:
        """None means that all entries can be read."""
        errors: list[tuple[str, UnreadableError, int]] = []
        for entry in entries:
            try:
                self.services.codec.served(self.resource, entry.value, entry.revision)
            except UnreadableError as error:
                errors.append((self.stored_path(entry.key), error, entry.revision))
                if not self.reports_corruption:
                    break
        if not errors:
            return None
        path, first, revision = errors[0]
        log.warning("%s at %d cannot be read: %s", path, revision, first.text)
        if self.reports_corruption:
            return failed_list(self.resource.group_resource, errors, self.services.features.requests)
        return internal(f'unable to transform key "{path}": {first.text}') if first.altered else first

    @property
    def reports_corruption(self) -> bool:
        """Answers name the objects that cannot be read, which can be deleted all the same."""
        return self.services.features.requests.unsafe_deletion

    def stored_path(self, key: Key) -> str:
        return stored_path(self.resource.group_resource, key, custom=self.resource.custom)

    def selectable(self, value: bytes, revision: int) -> Selectable:
        found = self._selectable.get(revision)
        if found is None:
            found = self.remember_selectable(
                loads(self.services.codec.served(self.resource, value, revision)), revision
            )
        return found

    def _labels(self, entry: Entry) -> Mapping[str, str]:
        return self.selectable(entry.value, entry.revision).labels

    def remember_selectable(self, obj: Object, revision: int) -> Selectable:
        labels = obj["metadata"].get("labels") or {}
        found = Selectable(dict(labels), self.strategy.fields(obj))
        if revision not in self.services.store.shared_revisions:
            self._selectable.put(revision, found)
        return found

    # --- writing -------------------------------------------------------------------------------------------

    def effort(self, write: WriteRequest, stored: int = 0) -> int:
        """The effort is a number of bytes; `stored` are those of now."""
        weight = self.strategy_of(write.subresource).weight
        return max(write.size, stored) * weight + self.strategy.effort

    async def check_and_commit(
        self,
        obj: Object,
        effort: int,
        check: Callable[[], None],
        commit: Callable[[], Awaitable[WriteResult]],
    ) -> WriteResult:
        """`check` completes and checks `obj`, then `commit` stores it.

        An object of an exclusive kind counts for others' checks from its own on, before it is stored.
        """
        if not self.strategy.exclusive:
            await offload(effort, check)
            return await commit()
        if self.services.others is not None:
            return await self._alone(self.services.others, effort, check, commit)
        async with self._checking:
            if self.services.log.shared:
                await self.services.store.refresh()
            await offload(effort, check)
            uid = obj["metadata"]["uid"]
            self._under_way[uid] = obj
        try:
            return await commit()
        finally:
            if self._under_way.get(uid) is obj:
                del self._under_way[uid]

    async def _alone(
        self,
        others: Others,
        effort: int,
        check: Callable[[], None],
        commit: Callable[[], Awaitable[WriteResult]],
    ) -> WriteResult:
        """No other worker knows what this one has under way: they take turns until it is stored."""
        async with self._checking, others.exclusive(self.resource.storage_resource):
            await self.services.store.refresh()
            await offload(effort, check)
            return await commit()

    def context(self, write: WriteRequest) -> StrategyContext:
        environment = self.services.environment
        return StrategyContext(
            gates=environment.gates,
            features=self.services.features,
            now=environment.clock.now(),
            entropy=environment.entropy,
            catalogue=self.services.table,
            resource=self.resource,
            user=write.user,
            verb=write.verb,
            list_entries=self._objects,
            get_entry=self._object,
            subresource=write.subresource,
            service_ip_range=self.services.service_ip_range,
            request_group=write.group,
            request_version=(write.requested or self.resource).version,
            authorize=self.services.authorizer.authorize,
            dry_run=write.dry_run,
            warn=write.warnings.extend,
            counted=self.services.metrics.strategies,
            given=write.given,
        )

    def reset_fields(self, write: WriteRequest) -> FieldSet:
        """A write through its subresource never owns these fields."""
        found = self._reset.get(write.subresource)
        if found is None:
            strategy = self.strategy_of(write.subresource)
            found = FieldSet.of_fields(strategy.reset_fields(self.context(write)))
            self._reset[write.subresource] = found
        return found

    def attributes(
        self, operation: str, write: WriteRequest, name: str, obj: Object | None, old: Object | None
    ) -> Attributes:
        return Attributes(
            operation,
            self.resource,
            write.subresource,
            write.namespace,
            name,
            obj,
            old,
            write.user,
            write.dry_run,
            write.requested,
            write.options,
            write.warnings,
            write.annotations,
            size=write.size,
        )

    # Another resource's objects as stored, undecoded: strategies look at few, stable fields of them.

    def _objects(self, resource: str, namespace: str | None) -> Iterator[Object]:
        """Objects that cannot be read are left out: upstream's allocators, for which this is, need no
        services."""
        for entry in self.services.store.list(resource, namespace).entries:
            obj = known_object(entry)
            if obj is not None:
                yield obj
        if self._under_way and resource == self.resource.storage_resource:
            yield from tuple(self._under_way.values())

    def _object(self, resource: str, namespace: str, name: str) -> Object | None:
        entry = self.services.store.get(Key(resource, namespace, name))
        return object_of(entry) if entry else None


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
    defaults = registry.strategy.loses_defaults
    value, served_as = await codec.stored(registry.resource, obj, defaults=defaults)
    if over is not None and registry.resource.custom and codec.holds(over.value, value):
        await confirm(services.store, over)
        found = registry.object(over)
        return WriteResult(found, over.revision, over.value)
    expected = over.revision if over is not None else 0
    if len(value) > _MOST_STORED and not write.dry_run:
        _check_size(registry.resource, key, obj, len(value))
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


def _check_size(resource: Resource, key: Key, obj: Object, size: int) -> None:
    """Raises 500 for an object that etcd, or its client, would refuse.

    Upstream keeps objects of its own kinds in protobuf, which is smaller than what the log has.
    """
    if not resource.custom:
        size = stored_size(obj, resource.schema)
    size += _REQUEST_BYTES + 3 * len(f"/registry/{key.resource}/{key.namespace}/{key.name}")
    if size > _MOST_SENT:
        what = f"trying to send message larger than max ({size} vs. {_MOST_SENT})"
        raise StatusError(500, "", f"rpc error: code = ResourceExhausted desc = {what}")
    if size > _MOST_STORED:
        raise StatusError(500, "", "etcdserver: request is too large")


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

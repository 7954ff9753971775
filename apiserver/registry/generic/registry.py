"""One resource, of any kind, has one registry: keys, strategies, contexts, and reads from the store.

The verbs that write are functions in `create`, `update` and `delete`; `commit` hands what they make to the
store.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from kubeskew.apimachinery import field
from kubeskew.apimachinery.errors import (
    GroupKind,
    GroupResource,
    StatusError,
    bad_request,
    internal,
    not_found,
)
from kubeskew.apimachinery.names import path_segment
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.admission import Attributes
from kubeskew.apiserver.apply.managedfields import FieldSet
from kubeskew.apiserver.caching.offload import offload
from kubeskew.apiserver.caching.store_cache import TwoGenerationCache
from kubeskew.apiserver.registry.generic.cached_reads import CachedReads
from kubeskew.apiserver.registry.generic.field_managers import field_manager
from kubeskew.apiserver.registry.generic.services import RegistryServices
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext, strategies_of
from kubeskew.apiserver.registry.generic.writes import WriteRequest, WriteResult
from kubeskew.apiserver.storage.encoding import loads
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.unreadable import (
    UnreadableError,
    corrupt,
    failed_list,
    known_object,
    object_of,
    stored_path,
)

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
            raise bad_request(f"Name parameter invalid: {field.show(name)}: {';'.join(texts)}")
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

    def remember_selectable(self, obj: Object, revision: int) -> Selectable:
        labels = obj["metadata"].get("labels") or {}
        found = Selectable(dict(labels), self.strategy.fields(obj))
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

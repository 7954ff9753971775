"""Converts between the bytes of the store and the versions that are served.

An object is parsed at most once per revision and served version; when the stored bytes already are what this
server would write, they are served as they are. Versions, fields and defaults that this server does not know
have upstream's effect: the first an error, the others are dropped on reading.

Stored fields that another design has under the same name with another type are dropped. Where two designs
call different fields the same, each has a protobuf number of its own (a number is never used again), and a
server that does not know the number drops the field. Objects are stored as JSON here, and both have the same
key: a value whose type does not fit is the other design's.
"""

from collections.abc import Container, Iterable
from typing import Any, cast

from kubeskew.apimachinery import conversion
from kubeskew.apimachinery.catalogue import data
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.errors import internal
from kubeskew.apimachinery.go_formats import as_written
from kubeskew.apimachinery.golang import decode_errors, raw_extensions
from kubeskew.apimachinery.golang.raw_extensions import raw_fields
from kubeskew.apimachinery.golang.roundtrip import WrongShape, normalise
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import GroupVersionKind, Resource, ResourceTable
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apiserver import structuralschema
from kubeskew.apiserver.apiextensions.conversion import (
    Converter,
    ReviewClient,
    is_empty,
    pruned,
    relabelled,
    webhook_of,
)
from kubeskew.apiserver.apiextensions.table import CustomResource
from kubeskew.apiserver.caching.store_cache import TwoGenerationCache
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.registry.defaulting import DefaultingContext, apply_defaults
from kubeskew.apiserver.storage.encoding import arranged, encode, loads, sorted_bytes
from kubeskew.apiserver.storage.records import Entry
from kubeskew.apiserver.structuralschema.model import structural_of
from kubeskew.apiserver.unreadable import UnreadableError, decoded

_REMEMBERED = 200_000  # revisions x versions, twice; 200 bytes each when served as stored
_WRITING = 500
_BYTES_MAX = 16 << 20  # of values, in each generation of either memory
_SCHEME = "pkg/api/legacyscheme/scheme.go:30"

# What an object is served as: built-in versions stay as they are, custom ones change with their definition.
# They are distinguished by number: a cache would keep every schema that a definition ever had.
Form = str | int


def without_foreign_fields(value: Any, schema: Schema) -> Any:
    """Fields of other designs are left out; `value` itself stays as it is."""
    if isinstance(value, list):
        items = schema.items
        return value if items is None else [without_foreign_fields(item, items) for item in value]
    if not isinstance(value, dict):
        return value
    if schema.kind is Kind.MAP and schema.items is not None:
        inside = schema.items
        return {name: without_foreign_fields(item, inside) for name, item in value.items()}
    foreign = data.foreign_fields().get(schema.name, frozenset())
    kept = {}
    for name, item in value.items():
        field = schema.fields.get(name)
        if field is None:
            kept[name] = item
        elif name not in foreign or not decode_errors.explain(item, field.schema):
            kept[name] = without_foreign_fields(item, field.schema)
    return kept


def form_of(resource: Resource) -> Form:
    return resource.number if isinstance(resource, CustomResource) else resource.api_version


class Codec:
    """Encodes for the store and decodes from it, at one version and gate set."""

    def __init__(
        self,
        table: ResourceTable,
        environment: Environment,
        client: ReviewClient,
        shared_revisions: Container[int] = (),
    ) -> None:
        """Nothing is remembered of `shared_revisions`, which are those of several objects."""
        self._shared_revisions = shared_revisions
        self.table = table
        self.environment = environment
        # Served bytes by (revision, form); True: the stored bytes themselves.
        self._served: TwoGenerationCache[tuple[int, Form], bytes | bool] = TwoGenerationCache(
            _REMEMBERED, lambda _, served: 0 if isinstance(served, bool) else len(served), _BYTES_MAX
        )
        # What this server has just written or is writing: watchers see it before its revision is known here.
        self._own: TwoGenerationCache[bytes, Form] = TwoGenerationCache(
            _WRITING, lambda value, _: len(value), _BYTES_MAX
        )
        self._features = Features.of(environment.gates)
        self._converter = Converter(client, environment.entropy)
        zeros = self._features.workloads.zero_metric_values
        self._converters = conversion.converters(zero_metric_values=zeros)

    def hub(self, resource: Resource) -> Resource:
        """Objects are worked with in the version that this server stores.

        Versions of a custom resource have schemas of their own: each is worked with in itself.
        """
        if resource.custom or resource.gvk == resource.storage:
            return resource
        return self.table.by_kind(*resource.storage) or resource

    def storage(self, resource: Resource) -> Resource:
        """Objects are written in the version of this resource, those of custom resources too."""
        if resource.gvk == resource.storage:
            return resource
        return self._known(resource.storage, resource) or resource

    async def stored(
        self, resource: Resource, obj: Object, *, defaults: bool = False
    ) -> tuple[bytes, Resource | None]:
        """Bytes to store come with the resource in whose version they are served as they are, None if reading
        them changes them. `obj` is in the version of `resource`. `defaults`: it may lack some, which are not
        stored.

        A custom resource is stored as it was converted: what reading adds and drops is not written.
        """
        if not resource.custom:
            value, served_as = _encoded(obj, resource)
            lacks = defaults and self.default(loads(value), resource) != loads(value)
            return value, None if lacks else served_as
        target = self.storage(resource)
        if target is not resource:
            obj = await self.by_webhook(target, obj)
        read = self.default(pruned(obj, target), target)
        return (encode(read), target) if read == obj else (encode(as_written(obj)), None)

    async def returned(
        self, resource: Resource, obj: Object, value: bytes, served_as: Resource | None
    ) -> Object:
        """The writer of `obj` gets what was stored as `value`, read again (etcd3/store.go). `served_as` is
        the second result of `stored`."""
        if not resource.custom:
            return obj if served_as is not None else self.default(obj, resource)
        if served_as is resource:
            return cast("Object", loads(value))
        known = self._read(loads(value), resource)
        return await self.by_webhook(resource, known)

    def holds(self, value: bytes, other: bytes) -> bool:
        """The order of keys does not count for values of a custom resource."""
        if len(value) != len(other):
            return False
        return value == other or sorted_bytes(value) == sorted_bytes(other)

    async def by_webhook(self, resource: Resource, obj: Object) -> Object:
        """`obj` may have any version; without a webhook only its apiVersion changes."""
        if obj.get("apiVersion") == resource.api_version:
            return obj
        webhook = webhook_of(resource)
        if is_empty(obj):
            return {**obj, "apiVersion": resource.api_version}
        if webhook is None:
            return relabelled(obj, resource)
        (converted,) = await self._converter.convert(webhook, [obj], resource)
        return pruned(converted, resource)

    def needs_webhook(self, resource: Resource) -> bool:
        return webhook_of(resource) is not None

    async def fetch_conversions(self, resource: Resource, found: Iterable[tuple[bytes, int]]) -> None:
        """A webhook converts those (value, revision) that `served` needs converted; mostly none."""
        webhook = webhook_of(resource)
        if webhook is None:
            return
        waiting: dict[str, list[tuple[int, Object]]] = {}
        for value, revision in found:
            if self._served.get((revision, form_of(resource))) is None:
                obj = self._read(decoded(value), resource)
                if obj["apiVersion"] == resource.api_version:
                    continue
                waiting.setdefault(obj["apiVersion"], []).append((revision, obj))
        for same in waiting.values():
            converted = await self._converter.convert(webhook, [obj for _, obj in same], resource)
            for (revision, _), obj in zip(same, converted, strict=True):
                self._served.put((revision, form_of(resource)), encode(pruned(obj, resource)))

    def is_stored(self, resource: Resource, value: bytes, revision: int) -> bool:
        """True means that this server would write the same bytes for the object."""
        if self.served(self.storage(resource), value, revision) is value:
            return True
        raw = raw_fields(resource.schema)
        if raw is None or not raw.may_be_in(value):
            return False
        obj = decoded(value)
        return self.convert(self._read(obj, resource, value), resource) == obj

    def expect(self, value: bytes, resource: Resource) -> None:
        """This server is about to write `value`, in the version of `resource`."""
        self._own.put(value, form_of(resource))

    def remember(self, revision: int, resource: Resource) -> None:
        """This server wrote the value at `revision`, in the version of `resource`."""
        self._served.put((revision, form_of(resource)), True)

    def served(self, resource: Resource, value: bytes, revision: int) -> bytes:
        """The result has no resourceVersion."""
        key = revision, form_of(resource)
        found = self._served.get(key)
        if found is None:
            own = self._own.get(value) == key[1]
            found = own or self._examine(resource, value)
            if revision not in self._shared_revisions:
                self._served.put(key, found)
        return value if isinstance(found, bool) else found

    form_of = staticmethod(form_of)

    def served_all(self, resource: Resource, entries: Iterable[Entry]) -> list[tuple[bytes, int]]:
        """Each value of `served` comes with its revision; nearly all are served as they are stored."""
        known, form, served = self._served.get, form_of(resource), self.served
        return [
            (value if known((revision, form)) is True else served(resource, value, revision), revision)
            for _, _, revision, _, value, *_ in entries
        ]

    def object(self, resource: Resource, value: bytes, revision: int) -> Object:
        """The object is a fresh one, with its resourceVersion."""
        served = self.served(resource, value, revision)
        raw = None if resource.custom else raw_fields(resource.schema)
        if raw is None or not raw.may_be_in(value):
            obj: Object = loads(served)
        elif served is value:
            obj = loads(value)
            raw.keep(obj, value)
        else:
            obj = self.convert(self._read(loads(value), resource, value), resource)
        obj["metadata"]["resourceVersion"] = str(revision)
        return obj

    def current(self, value: bytes, revision: int) -> Object:
        """A stored object of any kind comes in the version that this server stores, with its resourceVersion.

        It may be of another server's version. Raises StatusError (500) for what cannot be decoded.
        """
        obj = decoded(value)
        resource = self.hub(self._stored_as(obj))
        served = self.served(resource, value, revision)
        if served is not value:
            obj = loads(served)
        obj["metadata"]["resourceVersion"] = str(revision)
        return obj

    def convert(self, obj: Object, resource: Resource) -> Object:
        """`obj` may be of any registered version."""
        if obj["apiVersion"] == resource.api_version:
            return obj
        return self.convert_to(obj, resource.gvk)

    def convert_to(self, obj: Object, gvk: GroupVersionKind) -> Object:
        return conversion.convert(obj, gvk, self.table, self._converters)

    def default(self, obj: Object, resource: Resource) -> Object:
        structural = structural_of(resource)
        if structural is not None:
            structuralschema.default(obj, structural)
            return obj
        return apply_defaults(obj, resource.schema, self.defaults())

    def defaults(self) -> Any:
        return DefaultingContext(self._features, self.environment.clock.now())

    def _examine(self, resource: Resource, value: bytes) -> bytes | bool:
        obj = decoded(value)
        known = self._read(obj, resource, value)
        if resource.custom and known["apiVersion"] != resource.api_version:
            if webhook_of(resource) is not None:
                raise internal("the object has not been converted")  # `fetch_conversions` was not called
            return encode(relabelled(known, resource))
        served = self.convert(known, resource)
        raw = None if resource.custom else raw_fields(resource.schema)
        if raw is not None and raw.make_compact(served):
            return _encoded(served, resource)[0]
        as_stored = served == obj and _is_spliceable(value, obj)
        return True if as_stored else _encoded(served, resource)[0]

    def _read(self, obj: Object, resource: Resource, text: bytes = b"") -> Object:
        """A stored object is decoded in the version it is stored in, with defaults. Its raw fields keep their
        bytes if it comes with its `text`."""
        stored = self._stored_as(obj, resource)
        raw = raw_fields(stored.schema) if text and not stored.custom else None
        if raw is not None and raw.may_be_in(text):
            raw.keep(obj, text)
        try:
            known = pruned(obj, stored) if stored.custom else _normalised(obj, stored.schema)
        except WrongShape as error:
            why = decode_errors.explain(obj, stored.schema)
            raise UnreadableError(f"unable to decode the stored object: {why}") from error
        known.update(kind=obj["kind"], apiVersion=obj["apiVersion"])
        return self.default(known, stored)

    def _stored_as(self, obj: Object, resource: Resource | None = None) -> Resource:
        """The definition that made `resource` comes first, if one did."""
        group, _, version = obj["apiVersion"].rpartition("/")
        gvk = GroupVersionKind(group, version, obj["kind"])
        found = self._known(gvk, resource)
        if found is None and resource is not None and resource.custom:
            why = f"request to convert CR from an invalid group/version: {obj['apiVersion']}"
            raise UnreadableError(why)
        if found is None:
            raise undecodable(gvk)
        return found

    def _known(self, gvk: GroupVersionKind, resource: Resource | None) -> Resource | None:
        """A custom resource is what it was when `resource` was made.

        So nothing that a request or watch reads is of two definitions (getOrCreateServingInfoFor).
        """
        if isinstance(resource, CustomResource) and resource.definition is not None:
            return resource.definition.resource_of(gvk)
        return self.table.by_kind(*gvk)


def _encoded(obj: Object, resource: Resource) -> tuple[bytes, Resource | None]:
    """The second result is None if the bytes are not served as they are."""
    if raw_fields(resource.schema) is None:
        return encode(obj), resource
    value, tidy = raw_extensions.dumps(arranged(obj))
    return value, resource if tidy else None


def _is_spliceable(value: bytes, obj: Object) -> bool:
    """False for objects that others wrote by etcd's API with another order of fields, or with a
    resourceVersion: the revision could not be put into their bytes.
    """
    head = encode({"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": {}})[:-2]
    return value.startswith(head) and "resourceVersion" not in obj["metadata"]


def _normalised(obj: Object, schema: Schema) -> Object:
    """Objects are read as their Go type reads them, without what another design left in them."""
    known: Object
    try:
        known = normalise(obj, schema)
    except WrongShape:
        known = normalise(without_foreign_fields(obj, schema), schema)
    return known


def undecodable(gvk: GroupVersionKind) -> UnreadableError:
    text = f'no kind "{gvk.kind}" is registered for version "{gvk.api_version}" in scheme "{_SCHEME}"'
    return UnreadableError(text)

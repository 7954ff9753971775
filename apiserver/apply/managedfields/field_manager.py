"""Keeps `metadata.managedFields` of a resource through creates, updates and applies.

The order of concerns is that of upstream's chain of managers: kind check, the annotation of client-side
apply, objects nobody has tracked, the cap on updaters, the manager's identity, times, system fields, and at
the core the structured merge.

`CreatorFields` computes the one entry of a new object that nobody managed before: its creator owns everything
it sets. A new object is compared with a blank one of its Go type, so its creator owns what a struct holds,
but not the struct. Custom resources have no Go type: nothing is there before them. The result is computed
without the sets in between, because creates are what a server does most. Each schema that is met becomes a
function once: it knows the elements of its fields and what is below.

Sources, all 1.36: k8s.io/apimachinery/pkg/util/managedfields/internal (lastapplied*.go),
pkg/runtime/converter.go (omitempty omits no struct), k8s.io/apiserver/pkg/endpoints/handlers/create.go (the
live object is a new one of the kind).
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import orjson

from kubeskew.apimachinery import clock
from kubeskew.apimachinery.errors import StatusError, bad_request
from kubeskew.apimachinery.golang.raw_extensions import plain, raw_fields
from kubeskew.apimachinery.golang.roundtrip import holds_empties
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.apply.managedfields import entries, fieldpath, typed
from kubeskew.apiserver.apply.managedfields.entries import (
    APPLY,
    UPDATE,
    ConflictsError,
    EntryError,
    Managed,
    ManagerId,
)
from kubeskew.apiserver.apply.managedfields.fieldpath import FieldSet
from kubeskew.apiserver.apply.managedfields.ownership import (
    Convert,
    MissingVersionError,
    ResetFields,
    SchemaFor,
    Updater,
    Versioned,
)
from kubeskew.apiserver.apply.managedfields.typed import ABSENT, ItemError, TypedError

_TIMES = frozenset({"date-time", "micro-time"})  # structs that are written as null
_STRUCTS = {Kind.INT_OR_STRING: 0, Kind.QUANTITY: "0"}
_ZEROS = {Kind.STRING: "", Kind.INTEGER: 0, Kind.NUMBER: 0, Kind.BOOLEAN: False}
Fields = dict[str, Any]
Owned = Callable[[Any], Fields | None]  # what is below a field's element; None if the field is as in a blank
Below = Callable[[Any], Fields]  # what follows an element that is owned itself

_SCALARS = frozenset(
    {Kind.STRING, Kind.INTEGER, Kind.NUMBER, Kind.BOOLEAN, Kind.INT_OR_STRING, Kind.QUANTITY}
)
_NAMES_MAX = 1024  # of one map or list, of which the elements are kept; and characters of such an element


def blank_object(schema: Schema) -> dict[str, Any]:
    values = ((name, blank_value(field)) for name, field in schema.fields.items())
    return {name: value for name, value in values if value is not ABSENT}


def blank_value(field: Field) -> Any:
    """ABSENT if Go omits the field when it is not set."""
    schema = field.schema
    if field.pointer:
        return ABSENT if field.omit_empty else None
    if schema.kind is Kind.OBJECT:
        return blank_object(schema)
    if schema.format in _TIMES:
        return None
    if schema.kind in _STRUCTS:
        return _STRUCTS[schema.kind]
    return ABSENT if field.omit_empty else _ZEROS.get(schema.kind)


def serves(reset: FieldSet | None) -> bool:
    """`reset` may name top-level fields only."""
    return reset is None or not reset.children


class CreatorFields:
    """Keeps the walks over the schemas it has met, for as long as it lives."""

    def __init__(self) -> None:
        self._below: dict[Schema, Below | None] = {}
        self._structs: dict[Schema, Below] = {}

    def fields_of(
        self, obj: dict[str, Any], schema: Schema, reset: FieldSet | None, *, blank: bool = False
    ) -> Fields:
        """FieldsV1 has all that `obj` sets, without `reset` and what nobody owns; raises ItemError.

        Without `blank`, nothing was there before.
        """
        below = self._struct(schema) if blank else self._of(schema)
        found = below(obj) if below is not None else {}
        found.pop(".", None)
        for element in sorted(reset.members) if reset is not None else ():
            found.pop(element, None)
        for element in sorted(entries.UNOWNED.members & found.keys()):
            nobodys = {".", *entries.UNOWNED.below(element).members}
            left = {text: part for text, part in found[element].items() if text not in nobodys}
            if left:
                found[element] = left
            else:
                del found[element]
        return found

    def _of(self, schema: Schema) -> Below | None:
        """None if nothing is ever below the schema."""
        found = self._below.get(schema)
        if found is None and schema not in self._below:
            found = self._below[schema] = self._made(schema)
        return found

    def _made(self, schema: Schema) -> Below | None:
        if schema.kind in _SCALARS or typed.is_atomic(schema):
            return None
        return self._list(schema) if schema.kind is Kind.LIST else self._map(schema)

    def _map(self, schema: Schema) -> Below:
        known: dict[str, tuple[str, Below | None]] = {}  # by name: its element, and what may be below

        def below(value: Any) -> Fields:
            if not value or not isinstance(value, dict):
                return {}
            found: Fields = {".": {}}
            for name in sorted(value):
                part = known.get(name)
                if part is None:
                    part = fieldpath.field(name), self._of(typed.field_schema(schema, name) or typed.ANY)
                    if len(known) < _NAMES_MAX and len(name) < _NAMES_MAX:
                        known[name] = part
                element, inner = part
                found[element] = inner(value[name]) if inner is not None else {}
            return found

        return below

    def _struct(self, schema: Schema) -> Below:
        made = self._structs.get(schema)
        if made is not None:
            return made
        known: dict[str, tuple[str, Owned]] = {}  # by name: its element, and what may be below

        def below(value: Any) -> Fields:
            found: Fields = {}
            for name in sorted(value):
                part = known.get(name)
                if part is None:
                    field = schema.fields.get(name)
                    owned = self._absent(typed.ANY) if field is None else self._field(field)
                    part = fieldpath.field(name), owned
                    if field is not None:
                        known[name] = part
                element, owned = part
                inner = owned(value[name])
                if inner is not None:
                    found[element] = inner
            return found

        self._structs[schema] = below
        return below

    def _field(self, field: Field) -> Owned:
        """Its struct is there from the start, so a field with its blank value is not owned."""
        before, inner = blank_value(field), self._of(field.schema)
        if before is typed.ABSENT:
            return self._absent(field.schema)
        if isinstance(before, dict) and inner is not None:
            struct = self._struct(field.schema)
            return lambda value: struct(value) or None

        def owned(value: Any) -> Fields | None:
            if value == before:
                return None
            found = inner(value) if inner is not None else {}
            found.pop(".", None)
            return found

        return owned

    def _absent(self, schema: Schema) -> Owned:
        below = self._of(schema)
        return (lambda _value: {}) if below is None else below

    def _list(self, schema: Schema) -> Below:
        item_schema = typed.schema_of_items(schema)
        only = schema.list_keys[0] if len(schema.list_keys) == 1 else ""
        known: dict[Any, str] = {}  # elements by their only key

        def below(value: Any) -> Fields:
            if not value or not isinstance(value, list):
                return {}
            by_element: dict[str, list[Any]] = {}
            for item in value:
                key = item.get(only) if only and item.__class__ is dict else None
                element = known.get(key) if key.__class__ is str else None
                if element is None:
                    element = typed.item_element(schema, item)
                    if key.__class__ is str and len(known) < _NAMES_MAX and len(element) < _NAMES_MAX:
                        known[key] = element
                by_element.setdefault(element, []).append(item)
            elements = fieldpath.in_order(by_element) if len(by_element) > 1 else by_element
            inner = self._of(item_schema)  # not before: schemas may be recursive
            found: Fields = {".": {}}
            for element in elements:
                same = by_element[element]  # several of one key are owned as one
                found[element] = inner(same[0]) if inner is not None and len(same) == 1 else {}
            return found

        return below


ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATIONS = 256 * 1024  # bytes of all keys and values
BEFORE_FIRST_APPLY = "before-first-apply"
KUBECTL = "kubectl"

_ACTING = ManagerId("current-operation", "", "")


def given_entries(live: Object, new: Object, subresource: str) -> Managed:
    """A client's managers count if it may send them and they make sense, else those of `live` do."""
    ours = (live.get("metadata") or {}).get("managedFields")
    theirs = (new.get("metadata") or {}).get("managedFields")
    if not subresource:
        if entries.is_reset(theirs):
            return Managed()
        try:
            sent = entries.decode(theirs)
        except EntryError:
            sent = Managed()
        if sent.managers:
            return sent
    try:
        return entries.decode(ours)
    except EntryError:
        return Managed()


def unmanaged_object(obj: Object) -> Object:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def managed_object(obj: Object, found: list[dict[str, Any]] | None) -> Object:
    obj = unmanaged_object(obj)
    if not found:
        return obj
    return {**obj, "metadata": {**(obj.get("metadata") or {}), "managedFields": found}}


def check_kind(live: Object, config: Object, kind: str = "", api_version: str = "") -> None:
    """Raises 400 unless the config is of the kind and version wanted, by default those of `live`."""
    wanted = (api_version or live.get("apiVersion"), kind or live.get("kind"))
    if (config.get("apiVersion"), config.get("kind")) != wanted:
        raise bad_request(f"invalid object type: {gvk(config)}")


def metadata(obj: Object) -> Object:
    """Nobody has checked the object yet: metadata that is no map counts as empty."""
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def manager_name(obj: Object) -> str:
    """Go prints namespace, name and kind in this form; a value that is no text counts as empty."""
    found = metadata(obj)
    namespace, name = (
        value if isinstance(value := found.get(key), str) else "" for key in ("namespace", "name")
    )
    return f"{namespace}/{name}; {gvk(obj)}"


def gvk(obj: Object) -> str:
    """Go prints kind and version in this form; `/, Kind=` stands for a version that is none."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    api_version = api_version if isinstance(api_version, str) else ""
    if api_version.count("/") > 1:
        return "/, Kind="
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind if isinstance(kind, str) else ''}"


def owned_fields(live: Versioned) -> FieldSet | None:
    """Last applied fields that differ by now are left out; None without a readable annotation."""
    annotations = (live.value.get("metadata") or {}).get("annotations") or {}
    try:
        applied = orjson.loads(annotations.get(ANNOTATION) or "")
    except orjson.JSONDecodeError:
        return None
    if not isinstance(applied, dict) or applied.get("apiVersion") != live.api_version:
        return None
    try:
        typed.validate(applied, live.schema)
    except TypedError:
        return None
    fields = typed.to_field_set(applied, live.schema)
    changed = typed.compare(applied, live.value, live.schema)
    return fields.difference(changed.modified).difference(changed.added).difference(changed.removed)


def synced(obj: Object, config: Object) -> Object:
    """The annotation, if `obj` has one, holds what has just been applied; it goes where it is too large."""
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    if not annotations.get(ANNOTATION):
        return obj
    value = orjson.dumps(_without_annotation(config), option=orjson.OPT_SORT_KEYS).decode() + "\n"
    changed: dict[str, Any] = {**annotations, ANNOTATION: value}
    size = sum(len(key.encode()) + len(text.encode()) for key, text in changed.items())
    if size > MAX_ANNOTATIONS:
        del changed[ANNOTATION]
    return {**obj, "metadata": {**obj["metadata"], "annotations": changed}}


def _without_annotation(config: Object) -> Object:
    metadata = config.get("metadata") or {}
    annotations = metadata.get("annotations")
    if not annotations or ANNOTATION not in annotations:
        return config
    left = {key: value for key, value in annotations.items() if key != ANNOTATION}
    return {**config, "metadata": {**metadata, "annotations": left}}


def _relabel(obj: Object, api_version: str) -> Object:
    return {**obj, "apiVersion": api_version}


class FieldManager:
    """Objects are plain dicts, and stay as they are.

    `schema_for` returns the schema of the kind at an apiVersion, None if that version is not known. `convert`
    returns an object at another apiVersion; the default serves kinds whose versions are all alike.
    """

    def __init__(
        self,
        schema_for: SchemaFor,
        convert: Convert = _relabel,
        reset: ResetFields = None,
        *,
        blank: bool = False,
        refuses_duplicates: bool = False,
    ) -> None:
        """With `blank`, objects have Go types: creates are compared with an empty one.

        `refuses_duplicates`: an object with lists that repeat a key loses its managers by an update, and
        cannot be applied to (issue 113482).
        """
        self._blank = blank
        self._refuses_duplicates = refuses_duplicates
        self._schema_for = schema_for
        self._convert = convert
        self._reset = reset
        self._creator_fields = CreatorFields()

    def update(
        self,
        live: Object | None,
        new: Object,
        manager: str,
        subresource: str = "",
        now: datetime | str = "",
        *,
        reset: ResetFields = None,
    ) -> Object:
        """`new` is a created, updated or patched object; `manager`'s write is added to its managedFields.

        `live` is the object before, in the same version, None for a create. Never raises: if the managers
        cannot be worked out, as where an object does not fit the schema, they go.
        """
        checks = not self._blank or self._refuses_duplicates
        if checks and not (self._fits(new) and (live is None or self._fits(live))):
            return unmanaged_object(new)
        identity = ManagerId.of(manager, UPDATE, new["apiVersion"], subresource)
        if not live and not (new.get("metadata") or {}).get("managedFields"):
            created = self._created(new, identity, _text(now), reset if reset is not None else self._reset)
            if created is not None:
                return created
        live = live or self._before(new)
        write = _Write(self._updater(reset), new["apiVersion"], manager, subresource, _text(now))
        try:
            if self._changes_nothing(live, new, subresource):
                return managed_object(new, live["metadata"]["managedFields"])
            managed = write.update(live, unmanaged_object(new), given_entries(live, new, subresource))
        except (TypedError, MissingVersionError, StatusError, ValueError):
            return unmanaged_object(new)
        return managed_object(new, entries.encode(managed))

    def _fits(self, obj: Object) -> bool:
        """Objects with Go types fit, but for keys that repeat; so do all without a schema."""
        schema = self._schema_for(obj["apiVersion"])
        if schema is not None:
            try:
                allow = not self._refuses_duplicates
                typed.validate(unmanaged_object(obj), schema, allow_duplicates=allow)
            except TypedError:
                return False
        return True

    def _created(self, new: Object, identity: ManagerId, now: str, reset: ResetFields) -> Object | None:
        """None if only the general way through all managers finds the creator's entry."""
        schema = self._schema_for(identity.api_version)
        if schema is None or not (reset is None or isinstance(reset, FieldSet)) or not serves(reset):
            return None
        new = unmanaged_object(new)
        try:
            fields = self._creator_fields.fields_of(new, schema, reset, blank=self._blank)
        except ItemError:
            return None
        entry = entries.entry(identity, identity.api_version, fields, now)
        return managed_object(new, [entry] if fields else [])

    def _before(self, new: Object) -> Object:
        """A create of `new` is compared with this object."""
        schema = self._schema_for(new["apiVersion"]) if self._blank else None
        if schema is None:
            return {}
        return {**blank_object(schema), "apiVersion": new["apiVersion"], "kind": new.get("kind")}

    def _changes_nothing(self, live: Object, new: Object, subresource: str) -> bool:
        """Compares cheaply: True is certain, False means that managers have to be worked out."""
        ours = (live.get("metadata") or {}).get("managedFields")
        theirs = (new.get("metadata") or {}).get("managedFields")
        if not ours or not (subresource or theirs is None or theirs == ours):
            return False
        known = all(self._schema_for(entry.get("apiVersion", "")) is not None for entry in ours)
        if not (self._blank and known and unmanaged_object(live) == unmanaged_object(new)):
            return False
        return not holds_empties(new)

    def apply(
        self,
        live: Object | None,
        config: Object,
        manager: str,
        force: bool,
        subresource: str = "",
        now: datetime | str = "",
        *,
        kind: str = "",
        api_version: str = "",
        reset: ResetFields = None,
    ) -> Object:
        """Merges `config` into `live`, managedFields included; callers decode and default the result.

        `live` is in the version of `config`, None if it does not exist yet. Raises StatusError: 400 for a
        config of another kind or version or with managedFields, 409 with a cause per conflict, 500 for what
        does not fit the schema.
        """
        check_kind(live or config, config, kind, api_version)
        live = live or {"apiVersion": config.get("apiVersion"), "kind": config.get("kind")}
        if metadata(config).get("managedFields") is not None:
            raise bad_request("metadata.managedFields must be nil")
        write = _Write(self._updater(reset), config["apiVersion"], manager, subresource, _text(now))
        try:
            managed = entries.decode(live.get("metadata", {}).get("managedFields"))
        except EntryError as error:
            raise StatusError(500, "", f"failed to decode managed fields: {error}") from None
        try:
            merged, managed = write.apply(
                unmanaged_object(live),
                config,
                managed,
                before=self._before(live),
                force=force,
                duplicates=not self._refuses_duplicates,
            )
        except ConflictsError as conflicts:
            raise conflicts.status() from None
        if manager == KUBECTL:
            merged = synced(merged, config)
        return managed_object(merged, entries.encode(managed))

    def _updater(self, reset: ResetFields) -> Updater:
        found = reset if reset is not None else self._reset
        return Updater(self._schema_for, self._convert, found, checks=not self._blank)


class _Write:
    """Each write is by one manager, through one version and subresource."""

    def __init__(self, updater: Updater, api_version: str, manager: str, subresource: str, now: str) -> None:
        self._updater = updater
        self._api_version = api_version
        self._manager = manager
        self._subresource = subresource
        self._now = now

    def update(self, live: Object, new: Object, managed: Managed) -> Managed:
        """Objects that exist and whose managers were forgotten stay without any."""
        if not managed.managers and (live.get("metadata") or {}).get("uid"):
            return managed
        return self._tracked(live, new, managed, self._manager)

    def _tracked(self, live: Object, new: Object, managed: Managed, manager: str) -> Managed:
        before = self._updater.versioned(unmanaged_object(live), self._api_version)
        after = before.holding(new)
        managers = self._updater.update(before, after, managed.managers, _ACTING)
        times = dict(managed.times)
        taken = entries.stripped(managers.pop(_ACTING, None))
        if taken is not None:
            identity = ManagerId.of(manager, UPDATE, self._api_version, self._subresource)
            previous = managers.get(identity)
            if previous is not None:
                taken = taken._replace(fields=taken.fields.union(previous.fields))
            managers[identity] = taken
            times[identity] = self._now
        return entries.capped(Managed(managers, times))

    def apply(
        self,
        live: Object,
        config: Object,
        managed: Managed,
        *,
        before: Object,
        force: bool,
        duplicates: bool,
    ) -> tuple[Object, Managed]:
        """Merges `config` into `live`, in whose lists there may be `duplicates`.

        What nobody manages yet is compared with the object that is there `before` a create.

        Raises ConflictsError; StatusError for what does not fit.
        """
        if not managed.managers:
            existing = self._updater.versioned(live, self._api_version)
            why = f"failed to convert new object ({manager_name(live)}) to smd typed"
            why = f"failed to create manager for existing fields: {why}"
            _validated(existing, why, allow_duplicates=duplicates)
            managed = self._tracked(before, live, managed, BEFORE_FIRST_APPLY)
        current = self._updater.versioned(live, self._api_version)
        applied = current.holding(unmanaged_object(config))
        _validated(applied, f"failed to create typed patch object ({manager_name(config)})")
        why = f"failed to create typed live object ({manager_name(live)})"
        _validated(current, why, allow_duplicates=duplicates)
        try:
            return self._merged(current, applied, managed, force=force)
        except ConflictsError as conflicts:
            if self._manager != KUBECTL:
                raise
            allowed = owned_fields(current)
            if allowed is None:
                raise
            if not conflicts.fields().difference(allowed).is_empty():
                raise conflicts.without(allowed) from None
        return self._merged(current, applied, managed, force=True)

    def _merged(
        self, live: Versioned, config: Versioned, managed: Managed, *, force: bool
    ) -> tuple[Object, Managed]:
        identity = ManagerId.of(self._manager, APPLY, self._api_version, self._subresource)
        try:
            merged, managers = self._updater.apply(live, config, managed.managers, identity, force=force)
        except TypedError as error:
            raise StatusError(500, "", f"failed to merge config: {error}") from None
        ours = entries.stripped(managers.pop(identity, None))
        if ours is not None:
            managers[identity] = ours
        times = dict(managed.times)
        if merged.value == live.value:
            return live.value, Managed(managers, times)
        times[identity] = self._now
        value = merged.value if raw_fields(merged.schema) is None else plain(merged.value)
        return value, Managed(managers, times)


def _validated(obj: Versioned, failing: str, *, allow_duplicates: bool = False) -> None:
    try:
        typed.validate(obj.value, obj.schema, allow_duplicates=allow_duplicates)
    except TypedError as error:
        raise StatusError(500, "", f"{failing}: {error}") from None


def _text(now: datetime | str) -> str:
    return now if isinstance(now, str) else clock.timestamp(now)

"""Keeps `metadata.managedFields` right through updates and applies: the field manager of a resource.

The order of concerns is that of upstream's chain of managers: kind check, the annotation of client-side
apply, objects nobody has tracked, the cap on updaters, the manager's identity, times, system fields, and at
the core the structured merge.

Source: k8s.io/apimachinery/pkg/util/managedfields/internal, 1.36.
"""

from datetime import datetime

from kubeskew.apimachinery import clock
from kubeskew.apimachinery.errors import StatusError, bad_request
from kubeskew.apimachinery.golang.raw_extensions import plain, raw_fields
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apply.managedfields import (
    creator_fields,
    entries,
    last_applied,
    limits,
    objects,
    typed,
)
from kubeskew.apiserver.apply.managedfields.atoms import ItemError, TypedError
from kubeskew.apiserver.apply.managedfields.blank import blank_object
from kubeskew.apiserver.apply.managedfields.entries import (
    APPLY,
    UPDATE,
    ConflictsError,
    EntryError,
    Managed,
    ManagerId,
)
from kubeskew.apiserver.apply.managedfields.field_sets import FieldSet
from kubeskew.apiserver.apply.managedfields.updating import (
    Convert,
    MissingVersionError,
    ResetFields,
    SchemaFor,
    Updater,
    Versioned,
)

BEFORE_FIRST_APPLY = "before-first-apply"
KUBECTL = "kubectl"

_ACTING = ManagerId("current-operation", "", "")


def _relabel(obj: Object, api_version: str) -> Object:
    """Returns the conversion between versions that differ in name only."""
    return {**obj, "apiVersion": api_version}


class FieldManager:
    """Works on objects as plain dicts, which it leaves alone.

    `schema_for` gives the schema of the kind at an apiVersion, None if that version is not known. `convert`
    gives an object at another apiVersion; the default serves kinds whose versions are all alike.
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
        """Makes a manager; with `blank`, objects have Go types: creates are compared with an empty one.

        `refuses_duplicates`: an object with lists that repeat a key loses its managers by an update, and
        cannot be applied to (issue 113482).
        """
        self._blank = blank
        self._refuses_duplicates = refuses_duplicates
        self._schema_for = schema_for
        self._convert = convert
        self._reset = reset
        self._creator_fields = creator_fields.CreatorFields()

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
        """Returns `new` (a created, updated or patched object) with its managedFields after `manager` wrote
        it.

        `live` is the object before, in the same version, None for a create. Never raises: if the managers
        cannot be worked out, as where an object does not fit the schema, they go.
        """
        checks = not self._blank or self._refuses_duplicates
        if checks and not (self._fits(new) and (live is None or self._fits(live))):
            return objects.unmanaged(new)
        identity = ManagerId.of(manager, UPDATE, new["apiVersion"], subresource)
        if not live and not (new.get("metadata") or {}).get("managedFields"):
            created = self._created(new, identity, _text(now), reset if reset is not None else self._reset)
            if created is not None:
                return created
        live = live or self._before(new)
        write = _Write(self._updater(reset), new["apiVersion"], manager, subresource, _text(now))
        try:
            if self._changes_nothing(live, new, subresource):
                return objects.managed(new, live["metadata"]["managedFields"])
            managed = write.update(live, objects.unmanaged(new), objects.given(live, new, subresource))
        except (TypedError, MissingVersionError, StatusError, ValueError):
            return objects.unmanaged(new)
        return objects.managed(new, entries.encode(managed))

    def _fits(self, obj: Object) -> bool:
        """Decides whether an object fits its schema, where there is one.

        Those with Go types do, but for keys that repeat.
        """
        schema = self._schema_for(obj["apiVersion"])
        if schema is not None:
            try:
                allow = not self._refuses_duplicates
                typed.validate(objects.unmanaged(obj), schema, allow_duplicates=allow)
            except TypedError:
                return False
        return True

    def _created(self, new: Object, identity: ManagerId, now: str, reset: ResetFields) -> Object | None:
        """Returns a new object with its creator's entry; None if that takes more thought."""
        schema = self._schema_for(identity.api_version)
        if (
            schema is None
            or not (reset is None or isinstance(reset, FieldSet))
            or not creator_fields.serves(reset)
        ):
            return None
        new = objects.unmanaged(new)
        try:
            fields = self._creator_fields.fields_of(new, schema, reset, blank=self._blank)
        except ItemError:
            return None
        entry = entries.entry(identity, identity.api_version, fields, now)
        return objects.managed(new, [entry] if fields else [])

    def _before(self, new: Object) -> Object:
        """Returns the object that a create of `new` is compared with."""
        schema = self._schema_for(new["apiVersion"]) if self._blank else None
        if schema is None:
            return {}
        return {**blank_object(schema), "apiVersion": new["apiVersion"], "kind": new.get("kind")}

    def _changes_nothing(self, live: Object, new: Object, subresource: str) -> bool:
        """Decides cheaply whether the managers of `live` stay as they are."""
        ours = (live.get("metadata") or {}).get("managedFields")
        theirs = (new.get("metadata") or {}).get("managedFields")
        if not ours or not (subresource or theirs is None or theirs == ours):
            return False
        known = all(self._schema_for(entry.get("apiVersion", "")) is not None for entry in ours)
        return self._blank and known and objects.unmanaged(live) == objects.unmanaged(new)

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
        """Returns `live` with `config` merged in and its managedFields; it still has to be decoded and
        defaulted.

        `live` is in the version of `config`, None if it does not exist yet. Raises StatusError: 400 for a
        config of another kind or version or with managedFields, 409 with a cause per conflict, 500 for what
        does not fit the schema.
        """
        objects.check_kind(live or config, config, kind, api_version)
        live = live or {"apiVersion": config.get("apiVersion"), "kind": config.get("kind")}
        if objects.metadata(config).get("managedFields") is not None:
            raise bad_request("metadata.managedFields must be nil")
        write = _Write(self._updater(reset), config["apiVersion"], manager, subresource, _text(now))
        try:
            managed = entries.decode(live.get("metadata", {}).get("managedFields"))
        except EntryError as error:
            raise StatusError(500, "", f"failed to decode managed fields: {error}") from None
        try:
            merged, managed = write.apply(
                objects.unmanaged(live),
                config,
                managed,
                before=self._before(live),
                force=force,
                duplicates=not self._refuses_duplicates,
            )
        except ConflictsError as conflicts:
            raise conflicts.status() from None
        if manager == KUBECTL:
            merged = last_applied.synced(merged, config)
        return objects.managed(merged, entries.encode(managed))

    def _updater(self, reset: ResetFields) -> Updater:
        found = reset if reset is not None else self._reset
        return Updater(self._schema_for, self._convert, found, checks=not self._blank)


class _Write:
    """Holds one write by one manager through one version and subresource."""

    def __init__(self, updater: Updater, api_version: str, manager: str, subresource: str, now: str) -> None:
        self._updater = updater
        self._api_version = api_version
        self._manager = manager
        self._subresource = subresource
        self._now = now

    def update(self, live: Object, new: Object, managed: Managed) -> Managed:
        """Works out the managers after a write; objects that exist and whose managers were forgotten stay
        without.
        """
        if not managed.managers and (live.get("metadata") or {}).get("uid"):
            return managed
        return self._tracked(live, new, managed, self._manager)

    def _tracked(self, live: Object, new: Object, managed: Managed, manager: str) -> Managed:
        before = self._updater.versioned(objects.unmanaged(live), self._api_version)
        after = before.holding(new)
        managers = self._updater.update(before, after, managed.managers, _ACTING)
        times = dict(managed.times)
        taken = limits.stripped(managers.pop(_ACTING, None))
        if taken is not None:
            identity = ManagerId.of(manager, UPDATE, self._api_version, self._subresource)
            previous = managers.get(identity)
            if previous is not None:
                taken = taken._replace(fields=taken.fields.union(previous.fields))
            managers[identity] = taken
            times[identity] = self._now
        return limits.capped(Managed(managers, times))

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
            why = f"failed to convert new object ({objects.who(live)}) to smd typed"  # (from memory)
            why = f"failed to create manager for existing fields: {why}"
            _validated(existing, why, allow_duplicates=duplicates)
            managed = self._tracked(before, live, managed, BEFORE_FIRST_APPLY)
        current = self._updater.versioned(live, self._api_version)
        applied = current.holding(objects.unmanaged(config))
        _validated(applied, f"failed to create typed patch object ({objects.who(config)})")
        why = f"failed to create typed live object ({objects.who(live)})"
        _validated(current, why, allow_duplicates=duplicates)
        try:
            return self._merged(current, applied, managed, force=force)
        except ConflictsError as conflicts:
            if self._manager != KUBECTL:
                raise
            allowed = last_applied.owned_fields(current)
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
        ours = limits.stripped(managers.pop(identity, None))
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

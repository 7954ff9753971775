"""The field manager of a resource: keeps `metadata.managedFields` right through updates and applies.

The order of concerns is that of upstream's chain of managers: kind check, the annotation of client-side
apply, objects nobody has tracked, the cap on updaters, the manager's identity, times, system fields, and at
the core the structured merge.

Source: k8s.io/apimachinery/pkg/util/managedfields/internal, 1.36.
"""

from datetime import datetime
from typing import Any

from apimachinery import clock
from apimachinery.errors import StatusError, bad_request
from apimachinery.managedfields import entries, last_applied, typed
from apimachinery.managedfields.atoms import TypedError
from apimachinery.managedfields.entries import (
    APPLY,
    UPDATE,
    ConflictsError,
    EntryError,
    Managed,
    ManagerId,
    Owned,
)
from apimachinery.managedfields.field_sets import FieldSet
from apimachinery.managedfields.updating import (
    Convert,
    MissingVersionError,
    Object,
    ResetFields,
    SchemaFor,
    Updater,
    Versioned,
)

MAX_UPDATERS = 10
ANCIENT = "ancient-changes"
BEFORE_FIRST_APPLY = "before-first-apply"
KUBECTL = "kubectl"

_ACTING = ManagerId("current-operation", "", "")
# What no manager ever owns.
_SYSTEM_FIELDS = FieldSet.of_fields(
    [
        ("apiVersion",),
        ("kind",),
        ("metadata",),
        *(
            ("metadata", name)
            for name in (
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "clusterName",
                "generation",
                "managedFields",
                "resourceVersion",
            )
        ),
    ]
)


def _relabel(obj: Object, api_version: str) -> Object:
    """The conversion between versions that differ in name only."""
    return {**obj, "apiVersion": api_version}


class FieldManager:
    """Works on objects as plain dicts, which it leaves alone.

    `schema_for` gives the schema of the kind at an apiVersion, None if that version is not known. `convert`
    gives an object at another apiVersion; the default serves kinds whose versions are all alike.
    """

    def __init__(self, schema_for: SchemaFor, convert: Convert = _relabel, reset: ResetFields = None) -> None:
        self._schema_for = schema_for
        self._convert = convert
        self._reset = reset

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
        """`new` (a created, updated or patched object) with its managedFields after `manager` wrote it.

        `live` is the object before, in the same version, None for a create. Never raises: if the managers
        cannot be worked out, they stay as they were.
        """
        live = live or {}
        if self._changes_nothing(live, new, subresource):
            return _managed(new, live["metadata"]["managedFields"])
        write = _Write(self._updater(reset), new["apiVersion"], manager, subresource, _text(now))
        try:
            managed = write.update(live, _unmanaged(new), _given(live, new, subresource))
        except (TypedError, MissingVersionError, ValueError):
            return _managed(new, (live.get("metadata") or {}).get("managedFields"))
        return _managed(new, entries.encode(managed))

    def _changes_nothing(self, live: Object, new: Object, subresource: str) -> bool:
        """Whether the managers of `live` stay as they are, without working it out."""
        ours = (live.get("metadata") or {}).get("managedFields")
        theirs = (new.get("metadata") or {}).get("managedFields")
        if not ours or not (subresource or theirs is None or theirs == ours):
            return False
        known = all(self._schema_for(entry.get("apiVersion", "")) is not None for entry in ours)
        return known and _unmanaged(live) == _unmanaged(new)

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
        reset: ResetFields = None,
    ) -> Object:
        """`live` with `config` merged in and its managedFields; it still has to be decoded and defaulted.

        `live` is in the version of `config`, None if it does not exist yet. Raises StatusError: 400 for a
        config of another kind or version or with managedFields, 409 with a cause per conflict, 500 for what
        does not fit the schema.
        """
        live = live or {"apiVersion": config.get("apiVersion"), "kind": config.get("kind")}
        _check_kind(live, config, kind)
        if (config.get("metadata") or {}).get("managedFields") is not None:
            raise bad_request("metadata.managedFields must be nil")
        write = _Write(self._updater(reset), config["apiVersion"], manager, subresource, _text(now))
        try:
            managed = entries.decode(live.get("metadata", {}).get("managedFields"))
        except EntryError as error:
            raise StatusError(500, "", f"failed to decode managed fields: {error}") from None
        try:
            merged, managed = write.apply(_unmanaged(live), config, managed, force=force)
        except ConflictsError as conflicts:
            raise conflicts.status() from None
        if manager == KUBECTL:
            merged = last_applied.synced(merged, config)
        return _managed(merged, entries.encode(managed))

    def _updater(self, reset: ResetFields) -> Updater:
        return Updater(self._schema_for, self._convert, reset if reset is not None else self._reset)


class _Write:
    """One write by one manager through one version and subresource."""

    def __init__(self, updater: Updater, api_version: str, manager: str, subresource: str, now: str) -> None:
        self._updater = updater
        self._api_version = api_version
        self._manager = manager
        self._subresource = subresource
        self._now = now

    def update(self, live: Object, new: Object, managed: Managed) -> Managed:
        """Objects that exist and whose managers were forgotten stay without."""
        if not managed.managers and (live.get("metadata") or {}).get("uid"):
            return managed
        return self._tracked(live, new, managed, self._manager)

    def _tracked(self, live: Object, new: Object, managed: Managed, manager: str) -> Managed:
        before = self._updater.versioned(_unmanaged(live), self._api_version)
        after = before.holding(new)
        managers = self._updater.update(before, after, managed.managers, _ACTING)
        times = dict(managed.times)
        taken = _stripped(managers.pop(_ACTING, None))
        if taken is not None:
            identity = ManagerId.of(manager, UPDATE, self._api_version, self._subresource)
            previous = managers.get(identity)
            if previous is not None:
                taken = taken._replace(fields=taken.fields.union(previous.fields))
            managers[identity] = taken
            times[identity] = self._now
        return _capped(Managed(managers, times))

    def apply(self, live: Object, config: Object, managed: Managed, *, force: bool) -> tuple[Object, Managed]:
        """Raises ConflictsError; StatusError for what does not fit."""
        if not managed.managers:
            managed = self._tracked({}, live, managed, BEFORE_FIRST_APPLY)
        before = self._updater.versioned(live, self._api_version)
        applied = before.holding(config)
        _validated(applied, f"failed to create typed patch object ({_who(config)})")
        _validated(before, f"failed to create typed live object ({_who(live)})", allow_duplicates=True)
        try:
            return self._merged(before, applied, managed, force=force)
        except ConflictsError as conflicts:
            if self._manager != KUBECTL:
                raise
            allowed = last_applied.owned_fields(before)
            if allowed is None:
                raise
            if not conflicts.fields().difference(allowed).is_empty():
                raise conflicts.without(allowed) from None
        return self._merged(before, applied, managed, force=True)

    def _merged(
        self, live: Versioned, config: Versioned, managed: Managed, *, force: bool
    ) -> tuple[Object, Managed]:
        identity = ManagerId.of(self._manager, APPLY, self._api_version, self._subresource)
        try:
            merged, managers = self._updater.apply(live, config, managed.managers, identity, force=force)
        except TypedError as error:
            raise StatusError(500, "", f"failed to merge config: {error}") from None
        ours = _stripped(managers.pop(identity, None))
        if ours is not None:
            managers[identity] = ours
        times = dict(managed.times)
        if merged.value == live.value:
            return live.value, Managed(managers, times)
        times[identity] = self._now
        return merged.value, Managed(managers, times)


def _validated(obj: Versioned, failing: str, *, allow_duplicates: bool = False) -> None:
    try:
        typed.validate(obj.value, obj.schema, allow_duplicates=allow_duplicates)
    except TypedError as error:
        raise StatusError(500, "", f"{failing}: {error}") from None


def _stripped(owned: Owned | None) -> Owned | None:
    """Without system fields; None if nothing is left."""
    if owned is None:
        return None
    fields = owned.fields.difference(_SYSTEM_FIELDS)
    return None if fields.is_empty() else owned._replace(fields=fields)


def _capped(managed: Managed) -> Managed:
    """The oldest updaters' entries put together, one for each version, until there are few enough."""
    managers, times = managed.managers, managed.times
    updaters = [manager for manager, owned in managers.items() if not owned.applied]
    excess = len(updaters) - MAX_UPDATERS
    if excess <= 0:
        return managed
    updaters.sort(key=lambda manager: (times.get(manager, ""), manager))
    first: dict[str, ManagerId] = {}
    for manager in updaters:
        if excess <= 0:
            break
        owned = managers[manager]
        if owned.api_version not in first:
            first[owned.api_version] = manager
            continue
        bucket = ManagerId(ANCIENT, UPDATE, owned.api_version)
        if bucket not in managers:
            managers[bucket] = managers.pop(first[owned.api_version])
        if manager != bucket:
            merged = owned.fields.union(managers[bucket].fields)
            managers[bucket] = owned._replace(fields=merged)
            del managers[manager]
            if manager in times:
                times[bucket] = times[manager]
        excess -= 1
    return managed


# --- objects --------------------------------------------------------------------------------------------


def _given(live: Object, new: Object, subresource: str) -> Managed:
    """The managers to start from: those a client sends, if it may and they make sense, else the live ones."""
    ours = (live.get("metadata") or {}).get("managedFields")
    theirs = (new.get("metadata") or {}).get("managedFields")
    if not subresource:
        if entries.is_reset(theirs):
            return Managed()
        try:
            managed = entries.decode(theirs)
        except EntryError:
            managed = Managed()
        if managed.managers:
            return managed
    try:
        return entries.decode(ours)
    except EntryError:
        return Managed()


def _unmanaged(obj: Object) -> Object:
    """`obj` without managedFields."""
    metadata = obj.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def _managed(obj: Object, found: list[dict[str, Any]] | None) -> Object:
    """`obj` with these managedFields, none if they are empty."""
    obj = _unmanaged(obj)
    if not found:
        return obj
    return {**obj, "metadata": {**(obj.get("metadata") or {}), "managedFields": found}}


def _check_kind(live: Object, config: Object, kind: str) -> None:
    """Raise 400 unless the config is of the live object's kind and version."""
    wanted = (live.get("apiVersion"), kind or live.get("kind"))
    if (config.get("apiVersion"), config.get("kind")) != wanted:
        raise bad_request(f"invalid object type: {_gvk(config)}")


def _who(obj: Object) -> str:
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}; {_gvk(obj)}"


def _gvk(obj: Object) -> str:
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    return f"{group}/{version}, Kind={obj.get('kind') or ''}"


def _text(now: datetime | str) -> str:
    return now if isinstance(now, str) else clock.timestamp(now)

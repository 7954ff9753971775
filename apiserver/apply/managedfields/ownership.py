"""Computes the owners of fields after an update or an apply, over all versions that managers use.

Source: sigs.k8s.io/structured-merge-diff/v6/merge/update.go.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.schema import Schema
from kubeskew.apiserver.apply.managedfields import typed
from kubeskew.apiserver.apply.managedfields.entries import (
    ConflictsError,
    ManagerId,
    Managers,
    VersionedFieldSet,
)
from kubeskew.apiserver.apply.managedfields.fieldpath import EMPTY, FieldSet
from kubeskew.apiserver.apply.managedfields.typed import Comparison, TypedError

SchemaFor = Callable[[str], Schema | None]
Convert = Callable[[Object, str], Object]
# Fields that a write ignores, so that nobody comes to own them by it: for every version, or by version.
ResetFields = FieldSet | Mapping[str, FieldSet] | None


class MissingVersionError(Exception):
    """A version of the kind is not known (any more): what its managers own is forgotten."""


class Versioned:
    __slots__ = ("api_version", "schema", "value")

    def __init__(self, value: Object, api_version: str, schema: Schema) -> None:
        self.value = value
        self.api_version = api_version
        self.schema = schema

    def holding(self, value: Any) -> "Versioned":
        return Versioned(value if isinstance(value, dict) else {}, self.api_version, self.schema)

    def without(self, gone: FieldSet) -> "Versioned":
        return self.holding(typed.without(self.value, self.schema, gone))

    def named_fields(self) -> FieldSet:
        """Structs above the fields are named, too."""
        return self.with_names(typed.to_field_set(self.value, self.schema))

    def with_names(self, fields: FieldSet) -> FieldSet:
        return typed.with_named_fields(fields, self.schema)


class Updater:
    """Works out ownership; managers never come to own what is in `reset`.

    With `checks`, a converted object has to fit the schema of the version it comes to, which one that only
    changes its name need not do.
    """

    def __init__(
        self, schema_for: SchemaFor, convert: Convert, reset: ResetFields, *, checks: bool = False
    ) -> None:
        self._schema_for = schema_for
        self._convert = convert
        self._reset = reset
        self._checks = checks

    def versioned(self, value: Object, api_version: str) -> Versioned:
        """Raises MissingVersionError."""
        schema = self._schema_for(api_version)
        if schema is None:
            raise MissingVersionError(api_version)
        return Versioned(value, api_version, schema)

    def converted(self, obj: Versioned, api_version: str) -> Versioned:
        """Raises MissingVersionError, and 500 for what does not fit."""
        if obj.api_version == api_version:
            return obj
        there = self.versioned({}, api_version)
        found = there.holding(self._convert(obj.value, api_version))
        if self._checks:
            try:
                typed.validate(found.value, found.schema)
            except TypedError as error:
                raise StatusError(500, "", str(error)) from None
        return found

    def reset_of(self, api_version: str) -> FieldSet:
        if isinstance(self._reset, FieldSet):
            return self._reset
        return (self._reset or {}).get(api_version) or EMPTY

    # --- the two operations -----------------------------------------------------------------------------

    def update(self, live: Versioned, new: Versioned, managers: Managers, manager: ManagerId) -> Managers:
        """Makes `manager` the only owner of the fields that it changed."""
        managers, changed = self._settle(live, new, self._reconciled(live, managers), manager, force=True)
        before = managers.get(manager)
        fields = before.fields if before else EMPTY
        fields = fields.difference(changed.removed).union(changed.modified).union(changed.added)
        fields = fields.recursive_difference(self.reset_of(new.api_version))
        managers[manager] = VersionedFieldSet(fields, new.api_version, applied=False)
        return _without_empty(managers)

    def apply(
        self, live: Versioned, config: Versioned, managers: Managers, manager: ManagerId, *, force: bool
    ) -> tuple[Versioned, Managers]:
        """Raises ConflictsError and TypedError."""
        managers = self._reconciled(live, managers)
        merged = live.holding(typed.merge(live.value, config.value, live.schema))
        last = managers.get(manager)
        fields = typed.to_field_set(config.value, config.schema)
        fields = fields.recursive_difference(self.reset_of(config.api_version))
        managers[manager] = VersionedFieldSet(fields, config.api_version, applied=True)
        pruned = self._pruned(merged, managers, manager, last)
        managers, _ = self._settle(live, pruned, managers, manager, force=force)
        return pruned, managers

    def _reconciled(self, live: Versioned, managers: Managers) -> Managers:
        """Fits fields to the present schema of their version; managers of versions not known any more go."""
        found = {}
        for manager, owned in managers.items():
            try:
                there = self.converted(live, owned.api_version) if self._checks else None
                schema = there.schema if there is not None else self._schema_of(owned.api_version, live)
            except MissingVersionError:
                continue
            fields = typed.reconciled(owned.fields, schema)
            found[manager] = owned if fields is owned.fields else owned._replace(fields=fields)
        return found

    def _schema_of(self, api_version: str, live: Versioned) -> Schema:
        return live.schema if api_version == live.api_version else self.versioned({}, api_version).schema

    def _settle(
        self, live: Versioned, new: Versioned, managers: Managers, acting: ManagerId, *, force: bool
    ) -> tuple[Managers, Comparison]:
        """Takes changed fields from all but `acting`; raises ConflictsError unless `force`."""
        changes = typed.compare(live.value, new.value, live.schema)
        by_version = {new.api_version: changes.excluding(self.reset_of(new.api_version))}
        kept: Managers = {}
        conflicts: dict[ManagerId, FieldSet] = {}
        for manager, owned in managers.items():
            if manager == acting:
                kept[manager] = owned
                continue
            try:
                changed = self._changes_at(owned.api_version, live, new, by_version)
            except MissingVersionError:
                continue
            disputed = owned.fields.intersection(changed.modified.union(changed.added))
            if not disputed.is_empty():
                conflicts[manager] = disputed
            fields = owned.fields.difference(disputed).difference(changed.removed)
            kept[manager] = owned._replace(fields=fields)
        if conflicts and not force:
            raise ConflictsError(conflicts)
        return _without_empty(kept), by_version[new.api_version]

    def _changes_at(
        self, api_version: str, live: Versioned, new: Versioned, known: dict[str, Comparison]
    ) -> Comparison:
        """Each version is compared once, and kept in `known`; raises MissingVersionError."""
        if api_version not in known:
            with _wrapping_errors("failed to convert old object"):
                before = self.converted(live, api_version)
            with _wrapping_errors("failed to convert new object"):
                after = self.converted(new, api_version)
            changes = typed.compare(before.value, after.value, before.schema)
            known[api_version] = changes.excluding(self.reset_of(api_version))
        return known[api_version]

    # --- what an applier no longer applies --------------------------------------------------------------

    def _pruned(
        self, merged: Versioned, managers: Managers, manager: ManagerId, last: VersionedFieldSet | None
    ) -> Versioned:
        """Fields that `manager` applied last time and not now go, unless others own them, too."""
        if last is None or last.fields.is_empty():
            return merged
        with _wrapping_errors("failed to prune fields"):
            try:
                with _wrapping_errors("failed to convert merged object to last applied version"):
                    before = self.converted(merged, last.api_version)
            except MissingVersionError:
                return merged
            gone = before.without(before.with_names(last.fields))
            with _wrapping_errors("failed add back owned items"):
                gone = self._with_owned(before, gone, managers)
            with _wrapping_errors("failed add back dangling items"):
                gone = self._with_dangling(before, gone, last)
            return self.converted(gone, managers[manager].api_version)

    def _with_owned(self, merged: Versioned, pruned: Versioned, managers: Managers) -> Versioned:
        """Adds back what some manager owns, the version of `pruned` first."""
        by_version: dict[str, FieldSet] = {}
        for owned in managers.values():
            fields = by_version.get(owned.api_version, EMPTY)
            by_version[owned.api_version] = fields.union(owned.fields)
        for api_version in sorted(by_version, key=lambda version: version != pruned.api_version):
            try:
                with _wrapping_errors(f"failed to convert merged object at version {api_version}"):
                    whole = self.converted(merged, api_version)
                with _wrapping_errors(f"failed to convert pruned object at version {api_version}"):
                    kept = self.converted(pruned, api_version)
            except MissingVersionError:
                continue
            merged = whole
            owned_fields = kept.named_fields().union(whole.with_names(by_version[api_version]))
            pruned = whole.without(whole.named_fields().difference(owned_fields))
        return pruned

    def _with_dangling(self, merged: Versioned, pruned: Versioned, last: VersionedFieldSet) -> Versioned:
        """Adds back what was never the applier's to remove."""
        with _wrapping_errors("failed to convert pruned object to last applied version"):
            kept = self.converted(pruned, last.api_version).named_fields()
        gone = merged.named_fields().difference(kept)
        return merged.without(gone.intersection(merged.with_names(last.fields)))


@contextmanager
def _wrapping_errors(what: str) -> Iterator[None]:
    """Raises StatusError (500), as Go wraps errors, with what was being done when a conversion failed."""
    try:
        yield
    except StatusError as error:
        raise StatusError(500, "", f"{what}: {error.message}") from None


def _without_empty(managers: Managers) -> Managers:
    return {manager: owned for manager, owned in managers.items() if not owned.fields.is_empty()}

"""Decodes and encodes the entries of `metadata.managedFields`, and limits their number.

Sources: k8s.io/apimachinery/pkg/util/managedfields/internal (managedfields.go, conflict.go), 1.36;
k8s.io/apimachinery/pkg/util/managedfields/internal (stripmeta.go, capmanagers.go), 1.36.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orjson import dumps

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.go_formats import quoted
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apply.managedfields import fieldpath
from kubeskew.apiserver.apply.managedfields.fieldpath import FieldSet

APPLY, UPDATE = "Apply", "Update"
MAX_UPDATERS = 10
ANCIENT = "ancient-changes"

# What no manager ever owns.
UNOWNED = FieldSet.of_fields(
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


class EntryError(ValueError):
    """An entry of managedFields makes no sense."""


class ManagerId(NamedTuple):
    """Appliers are the same at every version: their `api_version` is empty."""

    manager: str
    operation: str
    api_version: str
    subresource: str = ""

    @classmethod
    def of(cls, manager: str, operation: str, api_version: str, subresource: str) -> "ManagerId":
        return cls(manager or "unknown", operation, "" if operation == APPLY else api_version, subresource)

    @property
    def identifier(self) -> bytes:
        """The JSON by which upstream identifies and sorts managers (BuildManagerIdentifier)."""
        names = ("manager", "operation", "apiVersion", "subresource")
        return dumps({name: value for name, value in zip(names, self, strict=True) if value})

    def __str__(self) -> str:
        text = quoted(self.manager)
        if self.subresource:
            text += f" with subresource {quoted(self.subresource)}"
        return text + (f" using {self.api_version}" if self.operation == UPDATE else "")


class VersionedFieldSet(NamedTuple):
    """`fields` are one manager's, in terms of `api_version`."""

    fields: FieldSet
    api_version: str
    applied: bool


Managers = dict[ManagerId, VersionedFieldSet]


@dataclass(slots=True)
class Managed:
    """Times are RFC 3339 texts, absent where an entry has none."""

    managers: Managers = field(default_factory=dict)
    times: dict[ManagerId, str] = field(default_factory=dict)


def decode(entries: Sequence[Mapping[str, Any]] | None) -> Managed:
    """Raises EntryError for an entry that makes no sense."""
    managed = Managed()
    for position, entry in enumerate(entries or ()):
        operation = entry.get("operation", "")
        if operation not in (APPLY, UPDATE):
            raise EntryError("operation must be `Apply` or `Update`")
        api_version = entry.get("apiVersion", "")
        if not api_version:
            raise EntryError("apiVersion must not be empty")
        fields_type = entry.get("fieldsType", "")
        if not fields_type:
            raise EntryError(f"missing fieldsType in managed fields entry {position}")
        if fields_type != "FieldsV1":
            raise EntryError(f'invalid fieldsType "{fields_type}" in managed fields entry {position}')
        identity = ManagerId(
            entry.get("manager", ""),
            operation,
            "" if operation == APPLY else api_version,
            entry.get("subresource", ""),
        )
        try:
            fields = FieldSet.from_fields(entry.get("fieldsV1"))
        except ValueError as error:
            raise EntryError(f"error decoding versioned set from {entry}: {error}") from None
        managed.managers[identity] = VersionedFieldSet(fields, api_version, operation == APPLY)
        if entry.get("time"):
            managed.times[identity] = entry["time"]
    return managed


def encode(managed: Managed) -> list[dict[str, Any]]:
    """Entries are in upstream's order: appliers first, then by time, manager, version, subresource."""
    found = [
        entry(
            identity._replace(operation=APPLY) if owned.applied else identity,
            owned.api_version,
            owned.fields.to_fields(),
            managed.times.get(identity),
        )
        for identity, owned in managed.managers.items()
    ]
    found.sort(
        key=lambda one: (
            one["operation"],
            one.get("time", ""),
            one.get("manager", ""),
            one["apiVersion"],
            one.get("subresource", ""),
        )
    )
    return found


def entry(identity: ManagerId, api_version: str, fields: dict[str, Any], time: str | None) -> dict[str, Any]:
    """`fields` are in the form of FieldsV1."""
    found: dict[str, Any] = {}
    if identity.manager:
        found["manager"] = identity.manager
    found["operation"] = identity.operation
    found["apiVersion"] = api_version
    if time:
        found["time"] = time
    found["fieldsType"] = "FieldsV1"
    found["fieldsV1"] = fields
    if identity.subresource:
        found["subresource"] = identity.subresource
    return found


def keep_times_of_no_change(new: Object, old: Object) -> bool:
    """Restores the entries of `old` in `new` if nothing but their times differs, so that nothing is written.

    True if the entries are the same but for their times. The field manager cannot know this: what is
    normalised, defaulted or dropped later makes the objects the same.

    Source: k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager/equality.go, 1.24 to 1.36
    (IgnoreManagedFieldsTimestampsTransformer).
    """
    theirs, ours = new["metadata"].get("managedFields") or [], old["metadata"].get("managedFields") or []
    if theirs == ours:
        return True
    if len(theirs) != len(ours):
        return False
    if any({**one, "time": ""} != {**other, "time": ""} for one, other in zip(theirs, ours, strict=True)):
        return False
    metadata = {**new["metadata"], "managedFields": ours}
    if {**new, "metadata": metadata} == old:
        new["metadata"] = metadata
    return True


def is_reset(entries: Any) -> bool:
    """An empty list, or a list of one empty entry, asks to forget all managers."""
    return isinstance(entries, list) and (not entries or (len(entries) == 1 and not any(entries[0].values())))


# --- conflicts ------------------------------------------------------------------------------------------


class ConflictsError(Exception):
    """An applier wants other values for fields that others own."""

    def __init__(self, conflicts: Mapping[ManagerId, FieldSet]) -> None:
        super().__init__("conflicts")
        self.conflicts = dict(sorted(conflicts.items(), key=lambda conflict: conflict[0].identifier))

    def fields(self) -> FieldSet:
        found = FieldSet()
        for theirs in self.conflicts.values():
            found = found.union(theirs)
        return found

    def without(self, fields: FieldSet) -> "ConflictsError":
        left = {manager: theirs.difference(fields) for manager, theirs in self.conflicts.items()}
        return ConflictsError({manager: theirs for manager, theirs in left.items() if not theirs.is_empty()})

    def status(self) -> StatusError:
        """The error is a 409 with a cause for each field in dispute."""
        causes = [
            {
                "reason": "FieldManagerConflict",
                "message": f"conflict with {manager}",
                "field": fieldpath.show(path),
            }
            for manager, theirs in self.conflicts.items()
            for path in theirs.paths()
        ]
        if len(causes) == 1:
            message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
        else:
            message = f"Apply failed with {len(causes)} conflicts: {self._listed()}"
        return StatusError(409, "Conflict", message, {"causes": causes})

    def _listed(self) -> str:
        lines: list[str] = []
        for manager, theirs in self.conflicts.items():
            lines.append(f"conflicts with {manager}:")
            lines += _bullets(theirs.paths())
        return "\n".join(lines)


def _bullets(paths: Iterable[Iterable[str]]) -> list[str]:
    return [f"- {fieldpath.show(path)}" for path in paths]


def stripped(owned: VersionedFieldSet | None) -> VersionedFieldSet | None:
    """System fields are left out; None if no other is left."""
    if owned is None:
        return None
    fields = owned.fields.difference(UNOWNED)
    return None if fields.is_empty() else owned._replace(fields=fields)


def capped(managed: Managed) -> Managed:
    """Merges the oldest updaters' entries, those of one version into one, until ten updaters are left."""
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

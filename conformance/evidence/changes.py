"""Lists what a write changed in an object."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsonpatch

from kubeskew.apimachinery.objects import ObjectView
from kubeskew.conformance.evidence.secrets import masked

# Every write has these.
_BOOKKEEPING = ("managedFields", "resourceVersion")
_KEYS = ("name", "type", "uid", "ip")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field was added, removed or replaced; items of lists are named by their key."""

    op: str  # add, remove, replace
    path: str  # status.conditions.Ready.status
    before: Any = None
    after: Any = None

    def __str__(self) -> str:
        match self.op:
            case "add":
                return f"+ {self.path}: {_short(self.after)}"
            case "remove":
                return f"- {self.path}: {_short(self.before)}"
            case _:
                return f"{self.path}: {_short(self.before)} → {_short(self.after)}"


def patch(before: ObjectView | None, after: ObjectView | None) -> list[dict[str, Any]]:
    """The JSON patch (RFC 6902) leaves out bookkeeping: managed fields and resource versions."""
    old, new = masked(before, after)
    operations: list[dict[str, Any]] = jsonpatch.make_patch(_plain(old), _plain(new)).patch
    return operations


def changes(before: ObjectView | None, after: ObjectView | None) -> list[FieldChange]:
    """Changes come in the order of their paths; bookkeeping is left out, contents of Secrets are hidden."""
    old, new = masked(before, after)
    return [*_changes(_plain(old), _plain(new), "")]


def value_changes(before: Any, after: Any) -> list[FieldChange]:
    """Compares values that are no objects, as `changes` does."""
    return [*_changes(before, after, "")]


def _changes(old: Any, new: Any, path: str) -> Iterator[FieldChange]:
    if isinstance(old, list) and isinstance(new, list):
        old, new = _by_key(old), _by_key(new)
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        if old != new:
            yield FieldChange("replace", path, old, new)
        return
    for key in sorted(dict.fromkeys([*old, *new]), key=str):
        place = f"{path}.{key}" if path else str(key)
        if key not in new:
            yield FieldChange("remove", place, before=old[key])
        elif key not in old:
            yield FieldChange("add", place, after=new[key])
        else:
            yield from _changes(old[key], new[key], place)


def _by_key(items: list[Any]) -> Any:
    """A list whose items have no common key stays a list."""
    for key in _KEYS:
        names = [item.get(key) if isinstance(item, Mapping) else None for item in items]
        if None not in names and len(set(map(str, names))) == len(names):
            return dict(zip(names, items, strict=True))
    return items


def _plain(obj: ObjectView | None) -> Any:
    if obj is None:
        return {}
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _BOOKKEEPING}
    return {**obj, "metadata": metadata}


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        text = "{" + ", ".join(f"{key}: {_short(entry)}" for key, entry in value.items()) + "}"
    elif isinstance(value, list):
        text = "[" + ", ".join(map(_short, value)) + "]"
    else:
        text = "null" if value is None else str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"

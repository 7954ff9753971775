"""Gives a definition the names that it requests, unless another definition of its group has them.

Source: apiextensions-apiserver pkg/controller/status/naming_controller.go, 1.36.
"""

import json
from collections.abc import Iterable
from typing import NamedTuple

from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apiextensions import conditions


class Naming(NamedTuple):
    """The accepted names of a definition, and its conditions NamesAccepted and Established."""

    names: Object
    accepted: Object
    established: Object


def is_settled(obj: Object) -> bool:
    """Decides whether the accepted names are those of the spec."""
    return _plain(obj["spec"]["names"]) == _plain((obj.get("status") or {}).get("acceptedNames") or {})


def name(obj: Object, others: Iterable[Object]) -> Naming:
    """Returns the names of `obj` beside those of `others`, the definitions of its group, itself included."""
    resources, kinds = _taken(others)
    asked, had = obj["spec"]["names"], (obj.get("status") or {}).get("acceptedNames") or {}
    given = dict(had)
    conflict = None
    for field, taken, reason in (
        ("plural", resources, "PluralConflict"),
        ("singular", resources, "SingularConflict"),
        ("shortNames", resources, "ShortNamesConflict"),
        ("kind", kinds, "KindConflict"),
        ("listKind", kinds, "ListKindConflict"),
    ):
        why = _conflict(field, asked, had, taken)
        if why:
            conflict = conditions.condition(conditions.NAMES_ACCEPTED, "False", reason, why)
        else:
            given[field] = asked.get(field)
    given["categories"] = asked.get("categories")
    accepted = conflict or conditions.condition(
        conditions.NAMES_ACCEPTED, "True", "NoConflicts", "no conflicts found"
    )
    return Naming(_ordered(given), accepted, _established(obj, accepted))


def _conflict(field: str, asked: Object, had: Object, taken: set[str]) -> str:
    if field == "shortNames":
        own = had.get(field) or []
        if (asked.get(field) or []) == own:
            return ""
        clashes = dict.fromkeys(name for name in asked.get(field) or () if name not in own and name in taken)
        texts = [f"{json.dumps(clash)} is already in use" for clash in clashes]
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""
    wanted = asked.get(field) or ""
    if wanted == (had.get(field) or "") or wanted not in taken:
        return ""
    return f"{json.dumps(wanted)} is already in use"


def _taken(others: Iterable[Object]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        names = (other.get("status") or {}).get("acceptedNames") or {}
        resources |= {
            names.get("plural") or "",
            names.get("singular") or "",
            *(names.get("shortNames") or ()),
        }
        kinds |= {names.get("kind") or "", names.get("listKind") or ""}
    return resources, kinds


def _established(obj: Object, accepted: Object) -> Object:
    """Returns the condition Established: as it was, or installing if the names have just been accepted."""
    old = find_condition(obj, conditions.ESTABLISHED)
    found = old or conditions.condition(
        conditions.ESTABLISHED, "False", "NotAccepted", "not all names are accepted"
    )
    if found["status"] != "True" and accepted["status"] == "True":
        return conditions.condition(
            conditions.ESTABLISHED, "False", "Installing", "the initial names have been accepted"
        )
    return found


_ORDER = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
_ALWAYS = {"plural", "kind"}


def _ordered(names: Object) -> Object:
    """Returns names in Go's order of fields, without what is empty there."""
    return {field: names.get(field) or "" for field in _ORDER if names.get(field) or field in _ALWAYS}


def _plain(names: Object) -> Object:
    return {field: value for field, value in names.items() if value}

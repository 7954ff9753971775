"""Facts that OpenAPI lacks of the shared machinery's types, from their Go source."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Document = dict[str, Any]

_SCALARS = frozenset({"string", "bool", "int", "int32", "int64", "float64"})
_EMBEDDED = {"ObjectMeta": "metadata", "ListMeta": "metadata"}
_NAMED_STRINGS = ("types.", "apimachinerytypes.")
_NAMED_OF_META = frozenset({"metav1.ConditionStatus"})


class Overlay(NamedTuple):
    """Fields by `definition.field`, and of `names` the names of their types."""

    values: frozenset[str]  # structs that are no pointers: Go always writes them
    written_empty: frozenset[str]  # no omitempty although not required
    pointers: frozenset[str]  # scalars behind a Go pointer: zero differs from absent
    names: dict[str, str]  # strings whose type has a name
    omitted_zeros: frozenset[str] = frozenset()  # structs that are no pointers, which Go leaves out if zero


def overlay(machinery: Mapping[str, Document]) -> Overlay:
    """`machinery` has the types of each package, by its import path."""
    values, written_empty, pointers, omitted_zeros = set[str](), set[str](), set[str](), set[str]()
    names: dict[str, str] = {}
    for package, types in machinery.items():
        for name, declared in types.items():
            for field, declaration in _fields(types, declared):
                path = f"{_prefix(package)}.{name}.{field}"
                kind = declaration["type"].removeprefix("*")
                scalar = _scalar(types, kind)
                if kind != declaration["type"] and scalar:
                    pointers.add(path)
                elif kind == declaration["type"] and _is_struct(types, kind):
                    (omitted_zeros if declaration.get("omitzero") else values).add(path)
                elif not declaration.get("omitempty"):
                    written_empty.add(path)
                if scalar == "string" and kind != "string":
                    names[path] = _shown(kind)
    return Overlay(
        frozenset(values), frozenset(written_empty), frozenset(pointers), names, frozenset(omitted_zeros)
    )


def _prefix(package: str) -> str:
    return f"io.k8s.{package.removeprefix('k8s.io/').replace('/', '.')}"


def _fields(types: Document, declared: Document) -> Iterator[tuple[str, Document]]:
    """Fields of embedded structs are the object's own, but for its metadata."""
    for name, field in declared.get("fields", {}).items():
        embedded = field["type"].removeprefix("*")
        if not name.startswith("<inline:"):
            yield name, field
        elif embedded.removeprefix("metav1.") in _EMBEDDED:
            yield _EMBEDDED[embedded.removeprefix("metav1.")], field
        elif embedded in types:
            yield from _fields(types, types[embedded])


def _scalar(types: Document, kind: str) -> str:
    """The scalar that a type is made of; empty if it is made of something else."""
    if kind in _SCALARS:
        return kind
    if kind.startswith(_NAMED_STRINGS) or kind in _NAMED_OF_META:
        return "string"
    alias = types.get(kind, {}).get("alias", "")
    return _scalar(types, alias) if alias and alias != kind else ""


def _is_struct(types: Document, kind: str) -> bool:
    if "." in kind:
        return not _scalar(types, kind)
    declared = types.get(kind, {})
    return "fields" in declared or declared.get("alias") == "struct{}"


def _shown(kind: str) -> str:
    """Reflection names a type with the last name of its package."""
    return (
        kind.replace("apimachinerytypes.", "types.").replace("metav1.", "v1.")
        if "." in kind
        else f"v1.{kind}"
    )

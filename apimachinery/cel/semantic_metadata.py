"""Evaluates CEL selectors of the model `metadata` of semantic parameters: KEP-4381 as drafted, 1.29+kep4381.

The variables are `versions`, `labels` and `values`: maps by name, as a resource's attribute lists them. A
version may be compared with text, and `labels.has("name")` is true if the resource has that label.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from kubeskew.apimachinery.cel import types
from kubeskew.apimachinery.cel.environments import Environment, Library, environment
from kubeskew.apimachinery.cel.errors import EvaluationError
from kubeskew.apimachinery.cel.library.kubernetes import SEMVERS
from kubeskew.apimachinery.cel.overloads import Overload, overload
from kubeskew.apimachinery.cel.program import Program, compile_expression
from kubeskew.apimachinery.cel.values import Semver

_COST_LIMIT = 1_000_000
_MINOR = 29
_SEMVER = "kubernetes.Semver"
_TYPES = {
    "versions": types.object_type(_SEMVER, {}),
    "labels": types.STRING,
    "values": types.INT,
}


def version_of(value: Semver | str) -> Semver:
    """Text may have a `v` before the version; raises EvaluationError if it is no version."""
    if isinstance(value, Semver):
        return value
    try:
        return Semver.parse_prefixed(value)
    except ValueError as error:
        raise EvaluationError(f'invalid version "{value}": {error}') from None


def _comparison(name: str, accept: frozenset[int]) -> Iterator[Overload]:
    """Either operand may be text, but not both."""

    def compared(left: Semver | str, right: Semver | str) -> bool:
        return version_of(left).compare(version_of(right)) in accept

    for left, right in ((_SEMVER, "string"), ("string", _SEMVER), (_SEMVER, _SEMVER)):
        yield overload(f"{name}({left},{right}) bool", compared, literal=version_of)


# Not upstream's: the draft compares versions with text.
_COMPARISONS: tuple[Overload, ...] = (
    *_comparison("_==_", frozenset({0})),
    *_comparison("_!=_", frozenset({-1, 1})),
    *_comparison("_<_", frozenset({-1})),
    *_comparison("_<=_", frozenset({-1, 0})),
    *_comparison("_>_", frozenset({1})),
    *_comparison("_>=_", frozenset({0, 1})),
)
_HAS_KEY: tuple[Overload, ...] = (overload("map(K,V).has(K) bool", lambda entries, key: key in entries),)


@lru_cache(maxsize=2)
def metadata_environment(*, stored: bool) -> Environment:
    """One map per type of value."""
    variables = {name: types.map_of(types.STRING, kind) for name, kind in _TYPES.items()}
    libraries = (Library(0, SEMVERS), Library(0, _COMPARISONS), Library(0, _HAS_KEY))
    return environment(_MINOR, stored=stored).extended(variables, libraries=libraries)


def compile_selector(expression: str, *, stored: bool = True) -> Program:
    """Raises CompileError."""
    return compile_expression(expression, metadata_environment(stored=stored), (types.BOOL,))


def metadata_matches(program: Program, attribute: Mapping[str, Any]) -> bool:
    """Raises EvaluationError, also where the selector asks for a name that is not listed."""
    value, _ = program.evaluate(_bindings(attribute), limit=_COST_LIMIT)
    return value is True


def _bindings(attribute: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "versions": {
            entry["name"]: version_of(entry.get("version") or "") for entry in attribute.get("versions") or ()
        },
        "labels": {entry["name"]: entry.get("value") or "" for entry in attribute.get("labels") or ()},
        "values": {entry["name"]: entry.get("quantity") or 0 for entry in attribute.get("values") or ()},
    }

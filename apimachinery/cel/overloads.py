"""Functions by signature, e.g. `list(T).indexOf(T) int`: the checker resolves them and the program
dispatches.

Source: github.com/google/cel-go/common/decls, as of Kubernetes 1.36.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kubeskew.apimachinery.cel import types
from kubeskew.apimachinery.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from kubeskew.apimachinery.cel.types import Type
from kubeskew.apimachinery.cel.values import type_name

_NAMESPACES = frozenset({"sets", "lists", "optional", "format", "strings", "ip", "jsonpatch", "cel", "math"})
_PARAMETERS = frozenset({"T", "K", "V", "V1"})
_PLAIN = {
    **types.NAMED,
    "any": types.ANY,
    "null": types.NULL,
    "duration": types.DURATION,
    "timestamp": types.TIMESTAMP,
}
OPAQUE = frozenset({"net.IP", "net.CIDR"}) | {
    f"kubernetes.authorization.{name}"
    for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
}


@dataclass(frozen=True, slots=True)
class Overload:
    """One implementation; `parameters` begins with the target of a method.

    `literal`, if any, reads arguments that are literals: it raises EvaluationError for one that is wrong.
    """

    identity: str
    name: str
    method: bool
    parameters: tuple[Type, ...]
    result: Type
    function: Callable[..., Any]
    loose: bool = False
    literal: Callable[[Any], Any] | None = None

    @property
    def generic(self) -> frozenset[Type]:
        """Type parameters in the signature."""
        return frozenset(_free((*self.parameters, self.result)))

    @property
    def looks_inside(self) -> bool:
        """True if a parameter is a list or map whose elements must have a certain type."""
        return any(not _takes_all(inner) for wanted in self.parameters for inner in wanted.parameters)

    def accepts(self, values: tuple[Any, ...]) -> bool:
        """Judges lists and maps by their first entry."""
        return len(values) == len(self.parameters) and all(map(_fits, values, self.parameters))


def _takes_all(wanted: Type) -> bool:
    return wanted.kind in ("dyn", "param", "any")


def _fits(value: Any, wanted: Type) -> bool:
    if _takes_all(wanted):
        return True
    if wanted.name != type_name(value):
        return False
    if wanted.kind == "list" and len(value):
        return _fits(value[0], wanted.parameters[0])
    if wanted.kind == "map" and len(value):
        return all(map(_fits, next(iter(value.items())), wanted.parameters))
    return True


def _free(kinds: Iterable[Type]) -> Iterator[Type]:
    for kind in kinds:
        if kind.kind == "param":
            yield kind
        yield from _free(kind.parameters)


def overload(
    signature: str,
    function: Callable[..., Any],
    identity: str = "",
    *,
    loose: bool = False,
    literal: Callable[[Any], Any] | None = None,
) -> Overload:
    """Parses `signature`, which has the form `TARGET.NAME(PARAMETERS) RESULT`; the overload calls `function`.

    A namespace (`sets.`) is part of the name. `identity` is cel-go's overload id where costs depend on it; a
    `loose` overload has its function check the arguments at run time.
    """
    head, _, result = signature.rpartition(" ")
    opened = _opening(head)
    target, dot, name = _split_last(head[:opened], ".")
    listed = [parse_type(part) for part in _split_all(head[opened + 1 : -1])]
    if dot and target in _NAMESPACES:
        target, name = "", f"{target}.{name}"
    if target:
        listed.insert(0, parse_type(target))
    parameters = tuple(listed)
    return Overload(
        identity or signature, name, bool(target), parameters, parse_type(result), function, loose, literal
    )


def _opening(text: str) -> int:
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise ValueError(f"not a signature: {text}")


def _split_last(text: str, separator: str) -> tuple[str, str, str]:
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[place], 0)
        if depth == 0 and text[place] == separator:
            return text[:place], separator, text[place + 1 :]
    return "", "", text


def _split_all(text: str) -> list[str]:
    parts, depth = [""], 0
    for char in text:
        depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


@lru_cache(maxsize=512)
def parse_type(text: str) -> Type:
    """Names that are unknown become types of objects."""
    if text.endswith(")"):
        name, _, inner = text[:-1].partition("(")
        parts = [parse_type(part) for part in _split_all(inner)]
        makers: dict[str, Callable[..., Type]] = {
            "list": types.list_of,
            "map": types.map_of,
            "optional": types.optional_of,
            "type": types.type_of,
        }
        return makers[name](*parts)
    if text in _PARAMETERS:
        return types.parameter(text)
    if text in OPAQUE:
        return types.opaque(text)
    return _PLAIN.get(text) or types.object_type(text, {})


class Functions:
    """All functions of an environment, in order of declaration."""

    def __init__(self, overloads: Iterable[Overload]) -> None:
        self._overloads: dict[str, list[Overload]] = {}
        known: set[tuple[str, bool, tuple[Type, ...]]] = set()
        for overload in overloads:
            key = (overload.name, overload.method, overload.parameters)
            if key not in known:
                known.add(key)
                self._overloads.setdefault(overload.name, []).append(overload)

    def __contains__(self, name: str) -> bool:
        return name in self._overloads

    def of(self, name: str) -> tuple[Overload, ...]:
        return tuple(self._overloads.get(name, ()))

    def all(self) -> tuple[Overload, ...]:
        return tuple(overload for listed in self._overloads.values() for overload in listed)


def dispatcher(name: str, overloads: tuple[Overload, ...]) -> Callable[..., Any]:
    """Picks the overload by the values' types; the function raises EvaluationError if none fits."""
    if all(candidate.loose and candidate.function is overloads[0].function for candidate in overloads):
        return overloads[0].function
    if any(overload.looks_inside for overload in overloads):
        return lambda *values: _find(name, overloads, values)(*values)
    known: dict[tuple[type, ...], Callable[..., Any]] = {}

    def call(*values: Any) -> Any:
        classes = tuple([value.__class__ for value in values])
        function = known.get(classes)
        if function is None:
            function = _find(name, overloads, values)
            if not any(hasattr(kind, "cel_type_of") for kind in classes):
                known[classes] = function
        return function(*values)

    return call


def _find(name: str, overloads: tuple[Overload, ...], values: tuple[Any, ...]) -> Callable[..., Any]:
    for overload in overloads:
        if not overload.loose and overload.accepts(values):
            return overload.function
    for overload in overloads:
        if overload.loose:
            return overload.function
    raise EvaluationError(f"{NO_SUCH_OVERLOAD}: {name}({', '.join(map(type_name, values))})")

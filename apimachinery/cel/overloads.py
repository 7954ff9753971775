"""Functions by signature, e.g. `string.contains(string)`; looked up by the types of the arguments."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

_SIGNATURE = re.compile(r"^(?:(?P<target>[\w.]+)\.)?(?P<name>\w+)\((?P<parameters>[^)]*)\) (?P<result>\S+)$")
_NAMESPACES = ("math", "sets", "lists", "optional", "cel", "format", "strings", "ip")

DYN = "dyn"


@dataclass(frozen=True, slots=True)
class Overload:
    """One implementation; `parameters` begins with the target of a method."""

    name: str
    method: bool
    parameters: tuple[str, ...]
    result: str
    function: Callable[..., Any]

    def accepts(self, types: tuple[str, ...]) -> bool:
        return len(types) == len(self.parameters) and all(
            wanted in (DYN, found) for wanted, found in zip(self.parameters, types, strict=True)
        )


def overload(signature: str, function: Callable[..., Any]) -> Overload:
    """`function` under `TARGET.NAME(PARAMETERS) RESULT`; a namespace (`sets.`) is part of the name."""
    found = _SIGNATURE.match(signature)
    if found is None:
        raise ValueError(f"not a signature: {signature}")
    parameters = tuple(part.strip() for part in found["parameters"].split(",") if part.strip())
    target, name = found["target"], found["name"]
    if target in _NAMESPACES:
        target, name = None, f"{target}.{name}"
    if target is not None:
        parameters = (target, *parameters)
    return Overload(name, target is not None, parameters, found["result"], function)


class Functions:
    """All functions of an environment."""

    def __init__(self, overloads: Iterable[Overload]) -> None:
        self._overloads: dict[tuple[str, bool], list[Overload]] = {}
        for each in overloads:
            self._overloads.setdefault((each.name, each.method), []).append(each)
        self._names = {name for name, _ in self._overloads}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def of(self, name: str, *, method: bool) -> tuple[Overload, ...]:
        return tuple(self._overloads.get((name, method), ()))

"""Where in an object a check is: a linked list that costs nothing until an error shows it.

Two spellings exist upstream: OpenAPI validation writes every step as `.name` (`spec.labels.a`), everything
else writes the keys of maps as `[key]`.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

Path: TypeAlias = tuple[Any, str | int] | None  # (path above, step); None is the root
NIL = "<nil>"  # how Go shows the path of the root


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a map, as a step of a field path."""

    name: str


def dotted(path: Path) -> str:
    """`spec.labels.a`, `spec.items[0].name`; the root is empty."""
    steps = []
    while path is not None:
        path, step = path
        steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return "".join(reversed(steps)).removeprefix(".")


def child(path: str, name: str) -> str:
    """A named field of `path`, which may be the root's."""
    return name if path in {"", NIL} else f"{path}.{name}"


def key(path: str, name: str) -> str:
    """An entry of a map."""
    return f"[{name}]" if path in {"", NIL} else f"{path}[{name}]"


def shown(path: str) -> str:
    """`path` as an error shows it."""
    return path or NIL

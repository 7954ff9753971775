"""Holds the place of a check in an object: a linked list that costs nothing until an error shows it.

Two spellings exist upstream: OpenAPI validation writes every step as `.name` (`spec.labels.a`), everything
else writes the keys of maps as `[key]`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

NIL = "<nil>"  # how Go shows the path of the root


@dataclass(frozen=True, slots=True)
class Key:
    """Marks the key of a map, as a step of a path."""

    name: str


Path: TypeAlias = tuple[Any, str | int | Key] | None  # (path above, step); None is the root


def dotted(path: Path) -> str:
    """Returns the path as `spec.labels.a` or `spec.items[0].name`; the root is empty."""
    return _joined(path, "", lambda name: f".{name}")


def bracketed(path: Path, prefix: str = "") -> str:
    """Returns the path as `spec.labels[a]`, below a prefix."""
    return _joined(path, prefix, lambda name: f"[{name}]")


def _joined(path: Path, prefix: str, show_key: Callable[[str], str]) -> str:
    steps = []
    while path is not None:
        path, step = path
        if isinstance(step, Key):
            steps.append(show_key(step.name))
        else:
            steps.append(f"[{step}]" if isinstance(step, int) else f".{step}")
    return (prefix + "".join(reversed(steps))).removeprefix(".")


def child(path: str, name: str) -> str:
    """Returns a named field of `path`, which may be the root's."""
    return name if path in {"", NIL} else f"{path}.{name}"


def key(path: str, name: str) -> str:
    """Returns an entry of a map."""
    return f"[{name}]" if path in {"", NIL} else f"{path}[{name}]"


def shown(path: str) -> str:
    """Returns `path` as an error shows it."""
    return path or NIL

"""The syntax of expressions in scenarios, and of keys in assertions: which text is one, and what it binds.

A text in parentheses is JMESPath. Of a key, as kyverno-json reads them (pkg/core/expression/parser.go):

- `(length(items))` is evaluated against the object found;
- `~.(items)` or `~.items` is of every item of a list or mapping, `~at.(items)` binds its place to `$at`;
- `(status)->now` or `status->now` binds what was found to `$now`, for what stands below;
- `\\(text)\\` is the text `(text)` itself.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_EXPRESSION = re.compile(r"^\((?:\s*jp\s*;)?(?P<text>.+)\)$", re.DOTALL)
_EACH = re.compile(r"^~(?P<place>\w*)\.(?P<rest>.*)$", re.DOTALL)
_BINDING = re.compile(r"^(?P<rest>.*?)\s*->\s*(?P<name>\w+)$", re.DOTALL)
_ESCAPED = re.compile(r"^\\(?P<text>.+)\\$", re.DOTALL)
_CEL = re.compile(r"^\s*cel\s*;")


def expression(text: Any) -> str | None:
    """Returns the expression of a string in parentheses; None for anything else."""
    found = _EXPRESSION.match(text) if isinstance(text, str) else None
    return found["text"] if found else None


def is_cel(text: str) -> bool:
    """Returns whether an expression is written in CEL, which is not evaluated here."""
    return bool(_CEL.match(text))


def unescaped(text: str) -> str:
    """Returns what a text stands for that is no expression: between backslashes, what is between them."""
    found = _ESCAPED.match(text) if text.startswith("\\") else None
    return found["text"] if found else text


@dataclass(frozen=True, slots=True)
class Key:
    """A key of an assertion: an expression or the name of a field, whether each item of it is meant, and the
    names to which its value and the place of an item are bound."""

    text: str
    is_expression: bool
    of_each: bool = False
    place: str = ""
    binding: str = ""

    @property
    def bound(self) -> tuple[str, ...]:
        """The names that are bound for what stands below the key."""
        return tuple(filter(None, (self.place, self.binding)))


@functools.lru_cache(1024)
def parse_key(text: str) -> Key:
    """Returns what a key of an assertion means."""
    rest, each = text, _EACH.match(text)
    if each:
        rest = each["rest"]
    binding = _BINDING.match(rest)
    if binding:
        rest = binding["rest"]
    inner = expression(rest)
    return Key(
        unescaped(rest) if inner is None else inner,
        inner is not None,
        each is not None,
        each["place"] if each else "",
        binding["name"] if binding else "",
    )


def bound_below(value: Any) -> Iterator[str]:
    """Yields the names that keys of an assertion bind, in order."""
    if isinstance(value, Mapping):
        for key, below in value.items():
            if isinstance(key, str):
                yield from parse_key(key).bound
            yield from bound_below(below)
    elif isinstance(value, list):
        for item in value:
            yield from bound_below(item)

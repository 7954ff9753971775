"""Matches field selectors: `metadata.name=a,status.phase!=Running`, over a mapping of labels to texts.

Source: k8s.io/apimachinery/pkg/fields/selector.go, 1.36.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kubeskew.apimachinery.memoizing import remembered
from kubeskew.apimachinery.selectors.labels import SelectorError

_TERM = re.compile(r"(?P<field>.*?)(?P<operator>!=|==|=)(?P<value>.*)", re.DOTALL)
_SPECIAL = {"\\": "\\\\", ",": "\\,", "=": "\\="}


@dataclass(frozen=True, slots=True)
class Term:
    """Holds one condition: the field has the value, or (`negated`) has not. An absent field is empty."""

    field: str
    value: str
    negated: bool = False

    def __str__(self) -> str:
        escaped = "".join(_SPECIAL.get(char, char) for char in self.value)
        return f"{self.field}{'!=' if self.negated else '='}{escaped}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Holds terms that must all hold."""

    terms: tuple[Term, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "FieldSelector":
        """Parses `text`; raises SelectorError."""
        return _parse(text)

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Decides whether an object with these selectable fields is selected."""
        for term in self.terms:  # noqa: SIM110 - lists ask all objects, and a generator each takes twice as long
            if (fields.get(term.field, "") == term.value) is term.negated:
                return False
        return True

    def is_empty(self) -> bool:
        """Decides whether everything is selected."""
        return not self.terms

    def exact_match(self, field: str) -> str | None:
        """Returns the value that the first term on `field` requires, None if none does."""
        for term in self.terms:
            if term.field == field and not term.negated:
                return term.value
        return None

    def transformed(self, convert: Callable[[str, str], tuple[str, str]]) -> "FieldSelector":
        """Maps every field and value by `convert` (aliases; it raises for unknown labels)."""
        return FieldSelector(
            tuple(Term(*convert(term.field, term.value), term.negated) for term in self.terms)
        )

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


EVERYTHING = FieldSelector()


@remembered(1024)
def _parse(text: str) -> FieldSelector:
    terms = []
    for part in sorted(_parts(text)):
        if not part:
            continue
        found = _TERM.fullmatch(part)
        if found is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        field, value = found["field"], _unescaped(found["value"])
        if field or value:
            terms.append(Term(field, value, found["operator"] == "!="))
    return FieldSelector(tuple(terms))


def _parts(text: str) -> Iterator[str]:
    """Splits at commas that no backslash escapes."""
    start, escaped = 0, False
    for position, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            yield text[start:position]
            start = position + 1
    yield text[start:]


def _unescaped(value: str) -> str:
    chars, escaped = [], False
    for char in value:
        if escaped:
            if char not in _SPECIAL:
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{char}")
            escaped = False
        elif char == "\\":
            escaped = True
            continue
        elif char in _SPECIAL:
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(char)}")
        chars.append(char)
    if escaped:
        raise SelectorError("invalid field selector: invalid escape sequence: \\")
    return "".join(chars)

"""Requirements: the single conditions of which label selectors are made, and the text of selectors.

The text is as in `app=web,tier in (a,b),!env,n>5`.

Source: k8s.io/apimachinery/pkg/labels/selector.go, 1.36.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, invalid, listed

_INTEGER = re.compile(r"[+-]?[0-9]+")


class SelectorError(ValueError):
    """A selector that is not valid; the text is upstream's."""


class Operator(StrEnum):
    """The relation of a requirement's key to its values; the value is upstream's own name."""

    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER = "gt"
    LESS = "lt"


EQUAL = {Operator.EQUALS, Operator.DOUBLE_EQUALS}
UNARY = {Operator.EXISTS, Operator.DOES_NOT_EXIST}
ORDERED = {Operator.GREATER, Operator.LESS}
SETS = {Operator.IN, Operator.NOT_IN}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition of a selector, its `values` in the order given."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    _members: frozenset[str] = field(init=False, repr=False, compare=False)  # clients may send thousands

    def __post_init__(self) -> None:
        object.__setattr__(self, "_members", frozenset(self.values))

    @classmethod
    def checked(cls, key: str, operator: Operator, values: Sequence[str]) -> "Requirement":
        """Raises SelectorError unless key, operator and values fit together."""
        errors = [*key_errors(key, "key"), *_count_errors(operator, values)]
        for position, value in enumerate(values):
            texts = names.label_value(value)
            if texts:
                errors.append(invalid(f"values[{position}][{key}]", value, "; ".join(texts)))
        if errors:
            raise SelectorError(listed(errors))
        return cls(key, operator, tuple(values))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """A missing label meets `!=`, `notin` and `!`."""
        value = labels.get(self.key)
        if self.operator in UNARY:
            return (value is None) is (self.operator is Operator.DOES_NOT_EXIST)
        if self.operator in (Operator.NOT_IN, Operator.NOT_EQUALS):
            return value not in self._members
        if self.operator not in ORDERED:
            return value in self._members
        ours, theirs = _int64(value or ""), _int64(self.values[0])
        if ours is None or theirs is None:
            return False
        return ours > theirs if self.operator is Operator.GREATER else ours < theirs

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
            case Operator.GREATER:
                return f"{self.key}>{self.values[0]}"
            case Operator.LESS:
                return f"{self.key}<{self.values[0]}"
        return f"{self.key}{self.operator}{self.values[0]}"


def key_errors(key: str, path: str) -> list[FieldError]:
    texts = names.qualified_name(key)
    return [invalid(path, key, "; ".join(texts))] if texts else []


def _count_errors(operator: Operator, values: Sequence[str]) -> list[FieldError]:
    """Checks the number and the form of the values that the operator needs."""
    shown = list(values) or None
    if operator in SETS:
        detail = "" if values else "for 'in', 'notin' operators, values set can't be empty"
    elif operator in UNARY:
        detail = "values set must be empty for exists and does not exist" if values else ""
    elif operator in ORDERED:
        detail = "" if len(values) == 1 else "for 'Gt', 'Lt' operators, exactly one value is required"
    else:
        detail = "" if len(values) == 1 else "exact-match compatibility requires one single value"
    errors = [invalid("values", shown, detail)] if detail else []
    if operator in ORDERED:
        text = "for 'Gt', 'Lt' operators, the value must be an integer"
        errors += [
            invalid(f"values[{position}]", value, text)
            for position, value in enumerate(values)
            if _int64(value) is None
        ]
    return errors


def _int64(text: str) -> int | None:
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


_TOKEN = re.compile(r"[ \t\r\n]*(?:(?P<symbol>==|!=|[=!(),<>])|(?P<word>[^ \t\r\n=!(),<>\0]+))")
_KEYWORDS = {"in", "notin"}
_BINARY = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER,
    "<": Operator.LESS,
}


def parse(text: str) -> Iterator[Requirement]:
    """Raises SelectorError."""
    return _Parser(text).parse()


class _Parser:
    """Reads requirements joined by commas.

    A token is a word or a symbol; the end of the text is the empty symbol. `in` and `notin` are operators
    only where an operator may stand.
    """

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._position = 0

    def parse(self) -> Iterator[Requirement]:
        while self._peek() != ("", False):
            found, is_word = self._peek()
            if not is_word and found != "!":
                raise SelectorError(f"found '{found}', expected: !, identifier, or 'end of string'")
            try:
                yield self._requirement()
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            found, is_word = self._next()
            if is_word or found not in ("", ","):
                raise SelectorError(f"found '{found}', expected: ',' or 'end of string'")
            if not found:
                return
            following, is_word = self._peek()
            if not is_word and following != "!":
                raise SelectorError(f"found '{following}', expected: identifier after ','")

    def _peek(self) -> tuple[str, bool]:
        return self._tokens[self._position]

    def _next(self) -> tuple[str, bool]:
        self._position += 1
        return self._tokens[self._position - 1]

    def _requirement(self) -> Requirement:
        key, is_word = self._next()
        absent = (key, is_word) == ("!", False)
        if absent:
            key, is_word = self._next()
        if not is_word:
            raise SelectorError(f"found '{key}', expected: identifier")
        errors = key_errors(key, "<nil>")
        if errors:
            raise SelectorError(str(errors[0]))
        if absent:
            return Requirement.checked(key, Operator.DOES_NOT_EXIST, ())
        if self._peek() in (("", False), (",", False)):
            return Requirement.checked(key, Operator.EXISTS, ())
        operator = self._operator()
        values = self._values() if operator in SETS else self._exact_value()
        return Requirement.checked(key, operator, sorted(set(values)))

    def _operator(self) -> Operator:
        found, is_word = self._next()
        if found not in _BINARY or (is_word and found not in _KEYWORDS):
            raise SelectorError(f"found '{found}', expected: in, notin, =, ==, !=, gt, lt")
        return _BINARY[found]

    def _values(self) -> list[str]:
        """Reads `(a, b)`; nothing between commas is the empty value."""
        found, is_word = self._next()
        if is_word or found != "(":
            raise SelectorError(f"found '{found}' expected: '('")
        found, is_word = self._peek()
        if not is_word and found not in (",", ")"):
            raise SelectorError(f"found '{found}', expected: ',', ')' or identifier")
        values, pending = [], ""
        while True:
            found, is_word = self._next()
            if is_word:
                pending = found
                found, is_word = self._next()
                if is_word or found not in (",", ")"):
                    raise SelectorError(f"found '{found}', expected: ',' or ')'")
            elif found not in (",", ")"):
                raise SelectorError(f"found '{found}', expected: ',', or identifier")
            values.append(pending)
            pending = ""
            if found == ")":
                return values

    def _exact_value(self) -> list[str]:
        if self._peek() in (("", False), (",", False)):
            return [""]
        found, is_word = self._next()
        if not is_word:
            raise SelectorError(f"found '{found}', expected: identifier")
        return [found]


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Yields each token with True if it is a word, then the end."""
    position = 0
    while (found := _TOKEN.match(text, position)) is not None:
        yield found["symbol"] or found["word"], found["word"] is not None
        position = found.end()
    yield "", False

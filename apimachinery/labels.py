"""Label selectors: the text of `?labelSelector=`, the LabelSelector object, and what they match.

Source: k8s.io/apimachinery/pkg/labels/selector.go and pkg/apis/meta/v1/helpers.go, 1.36.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from apimachinery.field import FieldError, invalid
from apimachinery.validation import names

_TOKEN = re.compile(r"[ \t\r\n]*(?:(?P<symbol>==|!=|[=!(),<>])|(?P<word>[^ \t\r\n=!(),<>\0]+))")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_KEYWORDS = {"in", "notin"}


class SelectorError(ValueError):
    """A selector that makes no sense; says why in upstream's words."""


class Operator(StrEnum):
    """How the key of a requirement relates to its values; the value is upstream's own name."""

    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER = "gt"
    LESS = "lt"


_EQUAL = {Operator.EQUALS, Operator.DOUBLE_EQUALS}
_UNARY = {Operator.EXISTS, Operator.DOES_NOT_EXIST}
_ORDERED = {Operator.GREATER, Operator.LESS}
_SETS = {Operator.IN, Operator.NOT_IN}
_BINARY = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER,
    "<": Operator.LESS,
}
_IN_OBJECTS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
_OBJECT_NAMES = {operator: name for name, operator in _IN_OBJECTS.items()}


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition of a selector. `values` in the order given."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    @classmethod
    def checked(cls, key: str, operator: Operator, values: Sequence[str]) -> "Requirement":
        """A requirement whose key, operator and values go together; raises SelectorError."""
        errors = [*_key_errors(key, "key"), *_count_errors(operator, values)]
        for position, value in enumerate(values):
            texts = names.label_value(value)
            if texts:
                errors.append(invalid(f"values[{position}][{key}]", value, "; ".join(texts)))
        if errors:
            raise SelectorError(_aggregate(errors))
        return cls(key, operator, tuple(values))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether `labels` meet the condition; a missing label meets `!=`, `notin` and `!`."""
        value = labels.get(self.key)
        if self.operator in _UNARY:
            return (value is None) is (self.operator is Operator.DOES_NOT_EXIST)
        if self.operator in (Operator.NOT_IN, Operator.NOT_EQUALS):
            return value not in self.values
        if self.operator not in _ORDERED:
            return value in self.values
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


class LabelSelector:
    """Requirements that must all hold, sorted by key. `selectable` False matches nothing at all."""

    __slots__ = ("_equal", "_others", "requirements", "selectable")

    def __init__(self, requirements: Iterable[Requirement] = (), *, selectable: bool = True) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self.selectable = selectable
        self._equal = [(each.key, each.values[0]) for each in self.requirements if each.operator in _EQUAL]
        self._others = [each for each in self.requirements if each.operator not in _EQUAL]

    @classmethod
    def parse(cls, text: str) -> "LabelSelector":
        """What `text` says; raises SelectorError."""
        return _parse(text)

    @classmethod
    def from_object(cls, selector: Mapping[str, Any] | None) -> "LabelSelector":
        """Of a `metav1.LabelSelector`; None selects nothing, an empty one everything."""
        if selector is None:
            return NOTHING
        requirements = [
            Requirement.checked(key, Operator.EQUALS, (value,))
            for key, value in sorted((selector.get("matchLabels") or {}).items())
        ]
        for expression in selector.get("matchExpressions") or ():
            name = expression.get("operator", "")
            if name not in _IN_OBJECTS:
                raise SelectorError(f"{_quote(name)} is not a valid label selector operator")
            values = expression.get("values") or ()
            requirements.append(Requirement.checked(expression.get("key", ""), _IN_OBJECTS[name], values))
        return cls(requirements)

    @classmethod
    def from_labels(cls, labels: Mapping[str, str] | None) -> "LabelSelector":
        """All of `labels`, unchecked (selectors of Services and the like); none select everything."""
        return cls(Requirement(key, Operator.EQUALS, (value,)) for key, value in (labels or {}).items())

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels is selected."""
        labels = labels or {}
        for key, value in self._equal:
            if labels.get(key) != value:
                return False
        for requirement in self._others:
            if not requirement.matches(labels):
                return False
        return self.selectable

    def is_empty(self) -> bool:
        """Whether everything is selected."""
        return self.selectable and not self.requirements

    def exact_match(self, key: str) -> str | None:
        """The one value that the first requirement on `key` allows, None if it does not."""
        for requirement in self.requirements:
            if requirement.key == key:
                single = requirement.operator in (*_EQUAL, Operator.IN) and len(requirement.values) == 1
                return requirement.values[0] if single else None
        return None

    def to_object(self) -> dict[str, Any]:
        """The `metav1.LabelSelector` that says the same; raises SelectorError if none can."""
        equal: dict[str, str] = {}
        expressions: list[dict[str, Any]] = []
        for requirement in self.requirements:
            if requirement.operator in _EQUAL:
                equal[requirement.key] = requirement.values[0]
            elif requirement.operator in _ORDERED:
                raise SelectorError(f'"{requirement.operator}" isn\'t supported in label selectors')
            elif requirement.operator not in _OBJECT_NAMES:
                raise SelectorError(f'"{requirement.operator}" is not a valid label selector operator')
            else:
                expression: dict[str, Any] = {
                    "key": requirement.key,
                    "operator": _OBJECT_NAMES[requirement.operator],
                }
                if requirement.values:
                    expression["values"] = sorted(set(requirement.values))
                expressions.append(expression)
        selector: dict[str, Any] = {"matchLabels": equal, "matchExpressions": expressions}
        return {name: part for name, part in selector.items() if part}

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelSelector) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.requirements, self.selectable


EVERYTHING = LabelSelector()
NOTHING = LabelSelector(selectable=False)


def parse_to_object(text: str) -> dict[str, Any]:
    """The `metav1.LabelSelector` of a selector's text; raises SelectorError."""
    try:
        selector = _parse(text)
    except SelectorError as error:
        raise SelectorError(f'couldn\'t parse the selector string "{text}": {error}') from None
    return selector.to_object()


def format_selector(selector: Mapping[str, Any] | None) -> str:
    """A `metav1.LabelSelector` as printers show it: `<none>` for an empty one, `<error>` for a bad one."""
    try:
        return str(LabelSelector.from_object(selector)) or "<none>"
    except SelectorError:
        return "<error>"


def _key_errors(key: str, path: str) -> list[FieldError]:
    texts = names.qualified_name(key)
    return [invalid(path, key, "; ".join(texts))] if texts else []


def _count_errors(operator: Operator, values: Sequence[str]) -> list[FieldError]:
    """Whether the operator takes that many values, and these."""
    shown = list(values) or None
    if operator in _SETS:
        detail = "" if values else "for 'in', 'notin' operators, values set can't be empty"
    elif operator in _UNARY:
        detail = "values set must be empty for exists and does not exist" if values else ""
    elif operator in _ORDERED:
        detail = "" if len(values) == 1 else "for 'Gt', 'Lt' operators, exactly one value is required"
    else:
        detail = "" if len(values) == 1 else "exact-match compatibility requires one single value"
    errors = [invalid("values", shown, detail)] if detail else []
    if operator in _ORDERED:
        text = "for 'Gt', 'Lt' operators, the value must be an integer"
        errors += [
            invalid(f"values[{position}]", value, text)
            for position, value in enumerate(values)
            if _int64(value) is None
        ]
    return errors


def _aggregate(errors: Sequence[FieldError]) -> str:
    texts = list(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _int64(text: str) -> int | None:
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# --- the text form --------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _parse(text: str) -> LabelSelector:
    return LabelSelector(_Parser(text).parse())


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
        errors = _key_errors(key, "<nil>")
        if errors:
            raise SelectorError(str(errors[0]))
        if absent:
            return Requirement.checked(key, Operator.DOES_NOT_EXIST, ())
        if self._peek() in (("", False), (",", False)):
            return Requirement.checked(key, Operator.EXISTS, ())
        operator = self._operator()
        values = self._values() if operator in _SETS else self._exact_value()
        return Requirement.checked(key, operator, sorted(set(values)))

    def _operator(self) -> Operator:
        found, is_word = self._next()
        if found not in _BINARY or (is_word and found not in _KEYWORDS):
            raise SelectorError(f"found '{found}', expected: in, notin, =, ==, !=, gt, lt")
        return _BINARY[found]

    def _values(self) -> list[str]:
        """`(a, b)`; nothing between commas is the empty value."""
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
    """Each token with whether it is a word, then the end."""
    position = 0
    while (found := _TOKEN.match(text, position)) is not None:
        yield found["symbol"] or found["word"], found["word"] is not None
        position = found.end()
    yield "", False

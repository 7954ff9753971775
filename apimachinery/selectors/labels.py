"""Label selectors: the text of `?labelSelector=`, the LabelSelector object, and the matching of labels.

Source: k8s.io/apimachinery/pkg/labels/selector.go and pkg/apis/meta/v1/helpers.go, 1.36.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kubeskew.apimachinery.go_formats import quoted
from kubeskew.apimachinery.memo import remembered
from kubeskew.apimachinery.selectors import label_requirements
from kubeskew.apimachinery.selectors.label_requirements import (
    EQUAL,
    ORDERED,
    Operator,
    Requirement,
    SelectorError,
)

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "LabelSelector",
    "Operator",
    "Requirement",
    "SelectorError",
    "format_selector",
    "parse_to_object",
]

_IN_OBJECTS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
_OBJECT_NAMES = {operator: name for name, operator in _IN_OBJECTS.items()}


class LabelSelector:
    """A selector: requirements that must all hold, sorted by key.

    It matches nothing if `selectable` is False.
    """

    __slots__ = ("_equal", "_others", "requirements", "selectable")

    def __init__(self, requirements: Iterable[Requirement] = (), *, selectable: bool = True) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self.selectable = selectable
        self._equal = [
            (requirement.key, requirement.values[0])
            for requirement in self.requirements
            if requirement.operator in EQUAL
        ]
        self._others = [requirement for requirement in self.requirements if requirement.operator not in EQUAL]

    @classmethod
    def parse(cls, text: str) -> "LabelSelector":
        """Raises SelectorError."""
        return _parse(text)

    @classmethod
    def from_object(cls, selector: Mapping[str, Any] | None) -> "LabelSelector":
        """Reads a `metav1.LabelSelector`; None selects nothing, an empty one everything."""
        if selector is None:
            return NOTHING
        requirements = [
            Requirement.checked(key, Operator.EQUALS, (value,))
            for key, value in sorted((selector.get("matchLabels") or {}).items())
        ]
        for expression in selector.get("matchExpressions") or ():
            name = expression.get("operator", "")
            if name not in _IN_OBJECTS:
                raise SelectorError(f"{quoted(name)} is not a valid label selector operator")
            values = expression.get("values") or ()
            requirements.append(Requirement.checked(expression.get("key", ""), _IN_OBJECTS[name], values))
        return cls(requirements)

    @classmethod
    def from_labels(cls, labels: Mapping[str, str] | None) -> "LabelSelector":
        """Requires all of `labels`, unchecked (selectors of Services and the like); no labels select
        everything."""
        return cls(Requirement(key, Operator.EQUALS, (value,)) for key, value in (labels or {}).items())

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """No labels are the same as None."""
        labels = labels or {}
        for key, value in self._equal:
            if labels.get(key) != value:
                return False
        for requirement in self._others:
            if not requirement.matches(labels):
                return False
        return self.selectable

    def is_empty(self) -> bool:
        """True if everything is selected."""
        return self.selectable and not self.requirements

    def exact_match(self, key: str) -> str | None:
        """The one value that the first requirement on `key` allows, None if it allows others."""
        for requirement in self.requirements:
            if requirement.key == key:
                equal = requirement.operator in EQUAL or requirement.operator == Operator.IN
                single = equal and len(requirement.values) == 1
                return requirement.values[0] if single else None
        return None

    def to_object(self) -> dict[str, Any]:
        """Converts to a `metav1.LabelSelector`; raises SelectorError for operators that this lacks."""
        equal: dict[str, str] = {}
        expressions: list[dict[str, Any]] = []
        for requirement in self.requirements:
            if requirement.operator in EQUAL:
                equal[requirement.key] = requirement.values[0]
            elif requirement.operator in ORDERED:
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


def selector_or_nothing(selector: Mapping[str, Any] | None) -> LabelSelector:
    """A selector that is missing or cannot be read selects nothing."""
    try:
        return LabelSelector.from_object(selector)
    except SelectorError:
        return NOTHING


def parse_to_object(text: str) -> dict[str, Any]:
    """Raises SelectorError with upstream's prefix."""
    try:
        selector = _parse(text)
    except SelectorError as error:
        raise SelectorError(f'couldn\'t parse the selector string "{text}": {error}') from None
    return selector.to_object()


def format_selector(selector: Mapping[str, Any] | None) -> str:
    """Printers' form of a selector: `<none>` for an empty one, `<error>` for a bad one."""
    try:
        return str(LabelSelector.from_object(selector)) or "<none>"
    except SelectorError:
        return "<error>"


@remembered(1024)
def _parse(text: str) -> LabelSelector:
    return LabelSelector(label_requirements.parse(text))

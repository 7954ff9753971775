"""Bounds the number of times that a rule may run, and the cost of all rules of a definition together.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation/cel_validation.go, 1.36.
"""

from dataclasses import dataclass, field
from typing import Final

from kubeskew.apimachinery.objects import Object

RULE_LIMIT: Final = 10_000_000
DEFINITION_LIMIT: Final = 100_000_000
MOST: Final = 2**64 - 1
_TOLD: Final = 4  # of the most expensive rules
_ADVICE: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, "
    "and strings are declared)"
)


@dataclass
class TotalCost:
    """Holds the cost of all rules of a schema; `expensive` are the paths of those that count."""

    cost: int = 0
    expensive: list[tuple[int, str]] = field(default_factory=list)

    def add(self, path: str, cost: int) -> None:
        """Counts the rule at `path`."""
        self.cost = min(self.cost + cost, MOST)
        if cost >= DEFINITION_LIMIT // 100:
            self.expensive.append((cost, path))
            self.expensive = sorted(self.expensive, key=lambda each: -each[0])[:_TOLD]


@dataclass(frozen=True, slots=True)
class Context:
    """Holds a node of the schema as rules see it. `cardinality` is how many such values may be; None is no
    limit.
    """

    props: Object
    total: TotalCost
    cardinality: int | None = 1
    root: bool = False

    def below(self, props: Object) -> "Context":
        """Returns a node directly below."""
        factor = _elements(self.props)
        many = None if self.cardinality is None or factor is None else min(self.cardinality * factor, MOST)
        return Context(props, self.total, many)


def _elements(props: Object) -> int | None:
    """Returns the number of values that a schema holds per field below it, None if it is unlimited."""
    limit: int | None = 1
    if props.get("type") == "object" and props.get("additionalProperties") is not None:
        limit = props.get("maxProperties")
    elif props.get("type") == "array":
        limit = props.get("maxItems")
    return None if limit is None else max(limit, 0)


def excess(name: str, cost: int, limit: int) -> str:
    """Returns the error's text for a cost above its limit."""
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    elif factor < 1.5:
        shown = f"{factor:f}x"  # not "1.0x"
    else:
        shown = f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {shown} {_ADVICE}"

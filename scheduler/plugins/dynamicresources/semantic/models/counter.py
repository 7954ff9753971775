"""The counter model: an amount, of which each claim takes a part.

Source: KEP-4381 as drafted.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Amount:
    """The part that a claim requires."""

    required: int

    def match(self, attribute: int, taken: Hashable) -> bool:
        """Returns whether enough is left; less than nothing is left after the driver reduced the amount."""
        return isinstance(taken, int) and attribute - taken >= self.required

    def allocate(self) -> Mapping[str, Any]:
        return {"count": self.required}


class CounterModel:
    """Adds up the parts of all claims: that is what is taken."""

    name = "counter"
    nothing: Hashable = 0

    def attribute(self, given: Mapping[str, Any]) -> int:
        return int(given.get("count") or 0)

    def requirement(self, parameter: Mapping[str, Any]) -> Amount:
        return Amount(int(parameter.get("required") or 0))

    def take(self, taken: int, result: Mapping[str, Any]) -> int:
        return taken + int(result.get("count") or 0)

    def free(self, taken: int, result: Mapping[str, Any]) -> int:
        return taken - int(result.get("count") or 0)

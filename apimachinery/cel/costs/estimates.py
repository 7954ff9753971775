"""Ranges of sizes and costs, with the arithmetic of 64-bit numbers that stop at their largest value.

Source: github.com/google/cel-go/checker/cost.go.
"""

from dataclasses import dataclass
from math import ceil

LARGEST = 2**64 - 1


def _sum(left: int, right: int) -> int:
    return min(left + right, LARGEST)


def _scaled(number: int, factor: float) -> int:
    if number > 0 and factor > 0 and float(number) > float(LARGEST) / factor:
        return LARGEST
    scaled = ceil(float(number) * factor)
    return LARGEST if scaled >= 2**64 else scaled


@dataclass(frozen=True, slots=True)
class Range:
    """A range of sizes or costs, from `low` to `high`."""

    low: int
    high: int

    def __add__(self, other: "Range") -> "Range":
        return Range(_sum(self.low, other.low), _sum(self.high, other.high))

    def __mul__(self, other: "Range") -> "Range":
        return Range(min(self.low * other.low, LARGEST), min(self.high * other.high, LARGEST))

    def scaled(self, factor: float) -> "Range":
        """Returns the range times a factor, rounded up."""
        return Range(_scaled(self.low, factor), _scaled(self.high, factor))

    def union(self, other: "Range") -> "Range":
        return Range(min(self.low, other.low), max(self.high, other.high))


def fixed(number: int) -> Range:
    return Range(number, number)


UNKNOWN = Range(0, LARGEST)
ZERO = fixed(0)
ONE = fixed(1)
EMPTY = Range(LARGEST, 0)  # neutral in a union


@dataclass(frozen=True, slots=True)
class Entry:
    """Sizes of the keys (or places) and values of a map or list."""

    kind: str
    key: Range
    value: Range

    def union(self, other: "Entry") -> "Entry":
        return Entry(self.kind, self.key.union(other.key), self.value.union(other.value))


@dataclass(frozen=True, slots=True)
class CallEstimate:
    """The cost of a call by itself, and the size of its result if that is known."""

    cost: Range
    size: Range | None = None

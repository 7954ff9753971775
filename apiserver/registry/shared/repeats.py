"""Values of a list that stand further in front, too."""

from collections.abc import Hashable, Iterable


def repeats(values: Iterable[Hashable]) -> frozenset[int]:
    """A position is that of a value that stands further in front too, found in one pass: lists may be
    long."""
    seen: set[Hashable] = set()
    found = set()
    for position, value in enumerate(values):
        if value in seen:
            found.add(position)
        seen.add(value)
    return frozenset(found)

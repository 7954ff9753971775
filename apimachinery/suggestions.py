"""Suggests the known name that a misspelt one was probably meant to be."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Returns `; did you mean NAME?`, or an empty text if no known name is near."""
    names = {str(candidate).lower(): str(candidate) for candidate in known}
    near = get_close_matches(name.lower(), names, n=1)
    return f"; did you mean {prefix}{names[near[0]]}?" if near else ""


def some_of(names: Sequence[str], most: int = 8) -> str:
    """Returns names as a list for one line: the first ones, and how many there are beside them."""
    left = len(names) - most
    return ", ".join(names) if left <= 1 else f"{', '.join(names[:most])} and {left} more"

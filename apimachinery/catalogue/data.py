"""The catalogue's data file, and the one question asked of it: what holds at a minor?

A history is a list of `[first, last, value]`; a value that never changed stands alone.
"""

from functools import cache
from pathlib import Path
from typing import Any

import orjson

CATALOGUE = Path(__file__).parents[1] / "data" / "catalogue.json"


@cache
def load() -> dict[str, Any]:
    """The whole document (its shape: `hack/catalogue_assembly.py`); read once per process."""
    document: dict[str, Any] = orjson.loads(CATALOGUE.read_bytes())
    return document


def at(history: list[list[Any]], minor: int) -> Any:
    """The value of a history at a minor; None outside of it."""
    for first, last, value in history:
        if first <= minor <= last:
            return value
    return None


def within(spans: list[list[int]], minor: int) -> bool:
    """Returns whether one of `[first, last]` spans holds the minor."""
    return any(first <= minor <= last for first, last in spans)

"""Checks the names in faults against the API's, and suggests the one that may have been meant."""

from functools import cache
from typing import Any

from kubeskew.apimachinery.suggestions import did_you_mean


@cache
def _rows() -> tuple[dict[str, Any], ...]:
    from kubeskew.apimachinery.catalogue import data  # loaded only where faults are used

    return tuple(data.resource_rows())


@cache
def plurals() -> frozenset[str]:
    """Returns the resources of all releases."""
    return frozenset(row["r"] for row in _rows())


@cache
def _by_kind() -> dict[str, str]:
    return {row["k"].lower(): row["r"] for row in _rows()}


def missing_resource(plural: str) -> str:
    """Returns what is wrong with a resource's name, empty if nothing is.

    A resource of a custom group is not known here: with its group it is taken as it is written.
    """
    if plural in plurals():
        return ""
    known = _by_kind().get(plural.lower())
    return f"there is no resource {plural}" + (
        f"; did you mean {known}?" if known else did_you_mean(plural, plurals())
    )

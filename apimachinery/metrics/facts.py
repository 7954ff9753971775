"""Says which metric families upstream's components have at each minor: type, labels, buckets, stability.

`apimachinery/data/metrics.json` has them; its `origin` names the releases. Minors before the first of them
are taken for it, later ones for the last.
"""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from kubeskew.apimachinery.versions import NEWEST_MINOR, OLDEST_MINOR

_FILE = Path(__file__).parents[1] / "data" / "metrics.json"
_PERIODS_SINCE = 35  # a deprecated metric stays for so many minors as its stability says (133436)
_KEPT_MINORS = {"STABLE": 3, "BETA": 1}


class Family(NamedTuple):
    """A family as upstream registers it; `custom` is the type of what a collector of its own makes."""

    type: str
    stability: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...]
    deprecated: str

    @property
    def mark(self) -> str:
        """Returns what stands before the help text."""
        since = f" (Deprecated since {self.deprecated})" if self.deprecated else ""
        return f"[{self.stability}]{since}"


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = orjson.loads(_FILE.read_bytes())
    return table


@cache
def _rows(minor: int) -> dict[str, Any]:
    table = _table()
    rows = dict(table["families"])
    for release, change in table["changes"].items():
        if int(release.partition(".")[2]) <= minor:
            for name in change["gone"]:
                del rows[name]
            rows.update(change["new"])
    return rows


@cache
def families(minor: int) -> dict[str, Family]:
    """Returns the families of a minor that are not hidden, by name."""
    return {name: family for name, family in _known(minor).items() if not _hidden(family, minor)}


@cache
def hidden(minor: int) -> tuple[str, ...]:
    """Returns the names of those that are deprecated and no longer shown (registry.go, shouldHide)."""
    return tuple(name for name, family in _known(minor).items() if _hidden(family, minor))


@cache
def known_names() -> frozenset[str]:
    """Returns the names that a family has at any minor."""
    table = _table()
    return frozenset(
        {*table["families"], *(name for one in table["changes"].values() for name in one["new"])}
    )


def nearest(name: str, minor: int) -> Family:
    """Returns a family as the minor has it, or the nearest minor that has it."""
    minors = sorted(range(OLDEST_MINOR, NEWEST_MINOR + 1), key=lambda other: abs(other - minor))
    return next(known[name] for known in map(_known, minors) if name in known)


@cache
def _known(minor: int) -> dict[str, Family]:
    buckets = _table()["buckets"]
    return {
        name: Family(
            row["type"],
            row.get("stability", "ALPHA"),
            tuple(row.get("labels", ())),
            tuple(map(float, buckets[row["buckets"]])) if "buckets" in row else (),
            row.get("deprecated", ""),
        )
        for name, row in _rows(minor).items()
    }


def _hidden(family: Family, minor: int) -> bool:
    if not family.deprecated:
        return False
    deprecated = int(family.deprecated.split(".")[1])
    if minor >= _PERIODS_SINCE:
        return deprecated + _KEPT_MINORS.get(family.stability, 0) <= minor
    return deprecated < minor

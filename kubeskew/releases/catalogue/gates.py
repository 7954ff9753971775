"""The gate table of `apimachinery/data/gates.json`, from the facts about gates of each release.

One row per gate: `{"specs": [[minor, stage, default, locked], …], "first": minor, "last": minor}`. `first`
and `last` bound the releases that know the name; outside of them the flag refuses it. A spec holds from its
minor on.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from kubeskew.apimachinery.versions import NEWEST_MINOR as NEWEST

Row = dict[str, Any]

_ALWAYS = 99  # a last minor that no release reaches
# Gates for all gates of a stage; no source lists them.
_OF_STAGES: dict[str, Row] = {
    f"All{stage}": {"specs": [[0, stage, 0, 0]], "first": 0, "last": _ALWAYS} for stage in ("Alpha", "Beta")
}


def gate_table(facts: Mapping[str, Any], previews: Mapping[str, Any]) -> dict[str, Any]:
    """`previews` has the gates of each preview release that are not those of its minor's release."""
    rows = {name: _row(name, spans) for name, spans in facts["gates"].items()}
    return {
        "gates": dict(sorted((rows | _OF_STAGES).items())),
        "dependencies": dict(sorted(facts["dependencies"].items())),
        "previews": dict(previews),
    }


def _row(name: str, spans: list[list[Any]]) -> Row:
    """Raises ValueError for a gate that a minor between two that know it does not know."""
    specs = [[first, *state] for first, _, *state in spans]
    for (_, before, *_), (first, *_) in pairwise(spans):
        if first != before + 1:
            raise ValueError(f"{name} goes after 1.{before} and comes again in 1.{first}")
    last = spans[-1][1]
    return {"specs": specs, "first": spans[0][0], "last": _ALWAYS if last == NEWEST else last}

"""Reads the parameters of a header: lists of values, subsets of members, paths of versions."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.suggestions import did_you_mean
from kubeskew.apimachinery.versions import Version
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.scenario import Parameter, value_name

_SHORTEST_PATH = 2


def parameter(name: Any, values: Any, where: str) -> Parameter:
    """One dimension of the matrix.

    `[a, b]` has these values, `{subsets: [a, b]}` every subset, `{path: ["1.34", "1.35", "1.34"]}` one
    path of versions and `{paths: [[…], […]]}` several. A value `{path: […]}` among others is a path, too.
    """
    if not isinstance(name, str):
        raise ScenarioError(f"{where}: {name!r} is no name; YAML reads on, off, yes and no as booleans")
    where = f"{where}.{name}"
    members: tuple[str, ...] = ()
    if isinstance(values, dict) and len(values) == 1 and isinstance(values.get("subsets"), list):
        members = tuple(map(str, values["subsets"]))
        values = list(_subsets(members)) if members else []
    elif isinstance(values, dict) and len(values) == 1 and isinstance(values.get("paths"), list):
        values = [{"path": path} for path in values["paths"]]
    elif isinstance(values, dict) and isinstance(values.get("path"), list):
        values = [values]
    if not isinstance(values, list) or not values:
        raise ScenarioError(
            f"{where}: expected a list of values, `subsets: [a, b]`, or `path: [version, version]`"
        )
    made = tuple(_value(value, f"{where}[{index}]") for index, value in enumerate(values))
    names = [value_name(value) for value in made]
    for text in names:
        if names.count(text) > 1:
            raise ScenarioError(f"{where}: two values are named {text}, so that two cells would be")
    return Parameter(name, made, members)


def _value(value: Any, where: str) -> Any:
    """The value itself; of a path, what scenarios want to know of it."""
    if not isinstance(value, Mapping) or "path" not in value:
        return value
    path = value["path"]
    if not isinstance(path, list) or len(path) < _SHORTEST_PATH:
        raise ScenarioError(f"{where}.path: expected a list of at least two versions, found {path!r}")
    versions = [_version(entry, f"{where}.path") for entry in path]
    return {
        "name": "-".join(versions),
        "from": versions[0],
        "to": versions[1],
        "last": versions[-1],
        "hops": [_hop(before, after) for before, after in itertools.pairwise(versions)],
        **value,
        "path": versions,
    }


def _version(entry: Any, where: str) -> str:
    """The version as a text: YAML reads 1.34 as a number, and 1.30 as 1.3."""
    try:
        return str(Version.parse(str(entry)))
    except ValueError as error:
        hint = '; YAML reads 1.30 as the number 1.3: write "1.30"' if isinstance(entry, float) else ""
        raise ScenarioError(f"{where}: {error}{hint}") from error


def _hop(before: str, after: str) -> Mapping[str, str]:
    down = Version.parse(after) < Version.parse(before)
    direction = "downgrade" if down else "upgrade"
    return {"name": f"{before} to {after}", "from": before, "to": after, "direction": direction}


def _subsets(members: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Every subset, the larger first: `{name, in: […], out: […]}`."""
    for size in range(len(members), -1, -1):
        for chosen in itertools.combinations(members, size):
            out = [member for member in members if member not in chosen]
            name = "all" if not out else "+".join(chosen) or "none"
            yield {"name": name, "in": list(chosen), "out": out}


def baseline(header: Mapping[str, Any], parameters: tuple[Parameter, ...], source: str) -> Mapping[str, str]:
    """The header's `baseline`: parameter → the name of the value that the others are held against."""
    chosen = header.get("baseline") or {}
    if not isinstance(chosen, Mapping):
        raise ScenarioError(
            f"{source}: baseline: expected a mapping of parameters to names, found {chosen!r}"
        )
    for name, value in chosen.items():
        known = {value_name(v): None for p in parameters if p.name == name for v in p.values}
        if not isinstance(value, str) or value not in known:
            raise ScenarioError(
                f"{source}: baseline.{name}: {value} is none of {', '.join(known) or 'no values'}"
                + did_you_mean(str(value), known)
            )
    return chosen

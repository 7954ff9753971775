"""Compares two releases, shipped or imported.

compare(Version.parse("1.37"), Version.parse("1.37+mine")) -> [Difference("fields", "core.v1.Pod…", …), …]
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from kubeskew.apimachinery.catalogue import data
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.authorization.default_roles import DefaultRoles
from kubeskew.releases.import_tree import CODE

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
_API = "io.k8s.api."
_NAMES = {
    "t": "type", "r": "required", "o": "omitempty", "p": "pointer", "d": "default", "g": "gates",
    "ps": "patchStrategy", "pk": "patchMergeKey", "lt": "listType", "lk": "listMapKeys", "mt": "mapType",
    "fd": "functionDefault",
}  # fmt: skip
# Keys of a resource's row that are its own, with the names by which they are shown.
_ROW_NAMES = {
    "k": "kind", "s": "singular", "n": "namespaced", "verbs": "verbs", "short": "shortNames",
    "cat": "categories", "gates": "gate",
}  # fmt: skip
_LEFT_OUT = ("doc",)  # prose is no difference


class Difference(NamedTuple):
    """`before` and `after` are values of JSON; null on the side that does not have the thing."""

    subject: str
    name: str
    change: str
    before: Any
    after: Any


def compare(one: Version, other: Version) -> list[Difference]:
    """Differences by subject and name."""
    before, after = view(one), view(other)
    return [
        difference
        for subject in before
        for difference in _differences(subject, before[subject], after[subject])
    ]


def view(version: Version) -> dict[str, dict[str, Any]]:
    """Everything that a release has, by subject and name; code files are known of imported releases alone."""
    catalogue, minor, _ = data.release(version)
    gates = FeatureGates(version)
    roles = DefaultRoles(gates)
    kinds = {
        f"{row['g']}/{row['k']}".lstrip("/")
        for row in catalogue["resources"]
        if row["in"][0] <= minor <= row["in"][1]
    }
    bound = [*roles.cluster_roles(), *roles.cluster_role_bindings(), *roles.roles(), *roles.role_bindings()]
    return {
        "types": dict(_types(catalogue, minor)),
        "fields": dict(_fields(catalogue, minor)),
        "rules": dict(_rules(catalogue, minor)),
        "resources": dict(_resources(catalogue, minor)),
        "storage versions": _at(catalogue["storage"], minor),
        "columns": {
            name: columns for name, columns in _at(catalogue["columns"], minor).items() if name in kinds
        },
        "gates": {name: _gate(gates, name) for name in gates.known()},
        "roles": {_role_name(role): _content(role) for role in bound},
        "code": version.document(CODE) or {},
    }


def _types(catalogue: Mapping[str, Any], minor: int) -> Iterator[tuple[str, Any]]:
    for name, entry in sorted(catalogue["definitions"].items()):
        if not data.within(entry["in"], minor):
            continue
        if "e" in entry:
            values = [value for value, spans in entry["e"].items() if data.within(spans, minor)]
            yield name.removeprefix(_API), {"values": sorted(values)}
        else:
            kind = entry.get("mt", "granular")
            yield name.removeprefix(_API), {"mapType": data.at(kind, minor)}


def _fields(catalogue: Mapping[str, Any], minor: int) -> Iterator[tuple[str, Any]]:
    specs = catalogue["specs"]
    for name, entry in sorted(catalogue["definitions"].items()):
        if not data.within(entry["in"], minor):
            continue
        for field, history in entry.get("f", {}).items():
            place = data.at(history, minor)
            if place is not None:
                spec = {
                    _NAMES.get(key, key): value for key, value in specs[place].items() if key not in _LEFT_OUT
                }
                yield f"{name.removeprefix(_API)}.{field}", spec


def _rules(catalogue: Mapping[str, Any], minor: int) -> Iterator[tuple[str, Any]]:
    """Declared validation of types and fields."""
    rules = catalogue.get("rules", [])
    for name, entry in sorted(catalogue["definitions"].items()):
        if not data.within(entry["in"], minor):
            continue
        for field, history in entry.get("v", {}).items():
            place = data.at(history, minor)
            if place is not None:
                yield f"{name.removeprefix(_API)}.{field}".rstrip("."), rules[place]


def _resources(catalogue: Mapping[str, Any], minor: int) -> Iterator[tuple[str, Any]]:
    for row in sorted(catalogue["resources"], key=lambda row: (row["g"], row["v"], row["r"])):
        if row["in"][0] <= minor <= row["in"][1]:
            yield f"{row['r']}.{row['v']}.{row['g']}".rstrip("."), _row(row, minor)
        elif row["in"][0] <= minor <= row.get("known", row["in"][1]):
            yield f"{row['r']}.{row['v']}.{row['g']}".rstrip("."), {"only": "decoded"}


def _row(row: Mapping[str, Any], minor: int) -> dict[str, Any]:
    shown = {name: row[key] for key, name in _ROW_NAMES.items() if key in row}
    if "gates" in row:
        shown["gate"] = data.at(row["gates"], minor)
    if "sub" in row:
        shown["subresources"] = {name: _row(listed, minor) for name, listed in row["sub"].items()}
    return {name: value for name, value in shown.items() if value is not None}


def _at(histories: Mapping[str, Any], minor: int) -> dict[str, Any]:
    found = {name.lstrip("/"): data.at(history, minor) for name, history in sorted(histories.items())}
    return {name: value for name, value in found.items() if value is not None}


def _gate(gates: FeatureGates, name: str) -> dict[str, Any]:
    spec = gates.spec(name)
    if spec is None:
        return {}
    needed = sorted(gates.needed(name))
    return spec._asdict() | ({"dependencies": needed} if needed else {})


def _role_name(role: Mapping[str, Any]) -> str:
    namespace = role["metadata"].get("namespace", "")
    return f"{role['kind']} {namespace + '/' if namespace else ''}{role['metadata']['name']}"


def _content(role: Mapping[str, Any]) -> dict[str, Any]:
    content = {name: value for name, value in role.items() if name not in ("apiVersion", "kind", "metadata")}
    if "rules" in content:
        content["rules"] = sorted(content["rules"] or (), key=orjson.dumps)
    if labels := role["metadata"].get("labels"):
        content["labels"] = labels
    return content


def _differences(subject: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    if subject == "code" and not (before and after):
        return  # one side has no source tree to compare with
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            yield Difference(subject, name, ADDED, None, after[name])
        elif name not in after:
            yield Difference(subject, name, REMOVED, before[name], None)
        elif before[name] != after[name]:
            yield Difference(subject, name, CHANGED, before[name], after[name])

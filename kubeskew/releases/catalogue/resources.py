"""The resources of all releases: verbs, subresources, names, gates, storage versions."""

from collections.abc import Mapping
from typing import Any

from kubeskew.releases.catalogue.overlay import EXTENSIONS, REGISTRATION
from kubeskew.releases.catalogue.types import Document, definition_name

Row = dict[str, Any]

_PACKAGES = {"": "core", "internal.apiserver.k8s.io": "apiserverinternal"}

_GPU = ["get", "patch", "update"]
_ALWAYS = 99  # a last minor that no release reaches


def package(group: str) -> str:
    """The directory of a group's Go types: `rbac.authorization.k8s.io` → `rbac`."""
    return _PACKAGES.get(group, group.split(".")[0])


def kind_definition(group: str, version: str, kind: str) -> str:
    if group == "apiextensions.k8s.io":
        return EXTENSIONS + kind
    if group == "apiregistration.k8s.io":
        return REGISTRATION + kind
    return definition_name(f"{package(group)}/{version}", kind)


def minors(text: str, newest: int) -> tuple[int, int]:
    """`1.28-1.31`, `1.28-` or `1.28` as first and last minor."""
    first, dash, last = text.partition("-")
    start = int(first.removeprefix("1."))
    if not dash:
        return start, start
    return start, int(last.removeprefix("1.")) if last else newest


def group_orders(discovery: Document, newest: int) -> list[list[Any]]:
    """Groups by priority, `[[first, last, groups], …]`; the core group has no place among them."""
    return [[*minors(span, newest), groups] for span, groups in discovery["groupOrder"].items()]


def resource_rows(discovery: Document, releases: Mapping[int, Mapping[str, Any]]) -> list[Row]:
    """One row per resource and span of releases in which nothing about it changed."""
    newest = max(releases)
    gates = {
        name: [[first, _ALWAYS if last == newest else last, gate] for first, last, gate in spans]
        for name, spans in discovery["gates"].items()
    }
    rows = [resource_row(fact, *minors(fact["minors"], newest), gates) for fact in discovery["resources"]]
    _extend(rows, releases)
    return rows


def _extend(rows: list[Row], releases: Mapping[int, Mapping[str, Any]]) -> None:
    """Notes until when a version is still known (decoded) after it is served no more: `known`."""
    for row in rows:
        definition = kind_definition(row["g"], row["v"], row["k"])
        following = [one for one in rows if one["in"][0] > row["in"][1] and _gvr(one) == _gvr(row)]
        last = row["in"][1]
        while not following and definition in releases.get(last + 1, {}):
            if not _existed(definition, releases[last + 1]):
                break
            last += 1
        if last > row["in"][1]:
            row["known"] = last


def _gvr(row: Row) -> tuple[str, str, str]:
    return row["g"], row["v"], row["r"]


def _existed(definition: str, release: Mapping[str, Any]) -> bool:
    return not release[definition].get("borrowed")


def resource_row(fact: Document, first: int, last: int, gates_of: Mapping[str, list[list[Any]]]) -> Row:
    """Nothing about the resource changed from the first to the last release.

    `gates_of` has `[[first, last, gate], …]` by `resource.group`, `resource.group/version` and
    `resource/subresource`.
    """
    row: Row = {
        "g": fact["group"], "v": fact["version"], "r": fact["resource"], "k": fact["kind"],
        "s": fact["singular"], "n": int(fact["namespaced"]), "verbs": fact["verbs"], "in": [first, last],
    }  # fmt: skip
    for key, source in (("short", "shortNames"), ("cat", "categories")):
        if source in fact:
            row[key] = fact[source]
    name = f"{fact['resource']}.{fact['group']}".rstrip(".")
    gates = gates_of.get(name) or gates_of.get(f"{name}/{fact['version']}")
    if gates:
        row["gates"] = gates
    if "subresources" in fact:
        row["sub"] = {
            name: _subresource(fact, name, listed, gates_of)
            for name, listed in sorted(fact["subresources"].items())
        }
    return row


def _subresource(fact: Document, name: str, listed: Document, gates_of: Mapping[str, list[list[Any]]]) -> Row:
    row: Row = {"k": listed["kind"], "verbs": _GPU if listed["verbs"] == "gpu" else listed["verbs"]}
    if "version" in listed:
        row |= {"g": listed.get("group", ""), "v": listed["version"]}
    gates = gates_of.get(f"{fact['resource']}/{name}")
    return row | ({"gates": gates} if gates else {})


def storage_versions(facts: Document, rows: list[Row]) -> dict[str, list[list[Any]]]:
    """`{group/Kind: [[first, last, api version], …]}` for every kind that is stored. Raises ValueError if the
    facts do not have one."""
    stored: dict[str, list[list[Any]]] = facts["kinds"]
    for row in rows:
        key = f"{row['g']}/{row['k']}"
        if row["verbs"] != "std" and "list" not in row["verbs"]:
            continue
        for minor in range(row["in"][0], row["in"][1] + 1):
            if not any(first <= minor <= last for first, last, _ in stored.get(key, ())):
                raise ValueError(f"1.{minor}: storage-versions.json has no version in which {key} is stored")
    return dict(sorted(stored.items()))


def runs(by_minor: Mapping[int, Any]) -> list[list[Any]]:
    """Values per minor as `[[first, last, value], …]`."""
    found: list[list[Any]] = []
    for minor, value in sorted(by_minor.items()):
        if found and found[-1][1] == minor - 1 and found[-1][2] == value:
            found[-1][1] = minor
        else:
            found.append([minor, minor, value])
    return found

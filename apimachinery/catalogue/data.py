"""The catalogue's data files, and the one question asked of them: what holds at a release?

A history is a list of `[first, last, value]`; a value that never changed stands alone. A preview release's
file says what it changes of the catalogue of a minor, its base (see `hack/catalogue/catalogue_preview.py`).
"""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from kubeskew.apimachinery.versions import PREVIEWS, Version

_DATA = Path(__file__).parents[1] / "data"
CATALOGUE = _DATA / "catalogue.json"

_Document = dict[str, Any]


class Release(NamedTuple):
    """Holds the document to read of a release, at which minor, and what is on although alpha or beta."""

    document: _Document
    minor: int
    served: frozenset[str]


@cache
def load() -> _Document:
    """The whole document (its shape: `hack/catalogue/catalogue_assembly.py`); read once per process."""
    document: _Document = orjson.loads(CATALOGUE.read_bytes())
    return document


@cache
def release(version: Version) -> Release:
    """Returns the document of a release: that of all minors, or for a preview one made for it alone."""
    if not version.preview:
        return Release(load(), version.minor, frozenset())
    preview = _preview(version)
    return Release(_laid_over(load(), preview), preview["base"], frozenset(preview["served"]))


@cache
def preview_numbers() -> dict[str, dict[str, int]]:
    """Returns the protobuf numbers of fields that only preview releases have, by definition."""
    return {name: numbers for version in PREVIEWS for name, numbers in _preview(version)["numbers"].items()}


@cache
def copied_definitions() -> dict[str, str]:
    """Returns how the names of definitions begin that preview releases have like others of their base."""
    return {new: old for version in PREVIEWS for new, old in _preview(version)["copies"].items()}


def store_of(resource: str) -> str:
    """Returns under which name the log keeps `plural.group`: another one for some of preview releases."""
    rows = (row for version in PREVIEWS for row in _preview(version)["resources"] if "store" in row)
    return next((row["store"] for row in rows if f"{row['r']}.{row['g']}" == resource), resource)


def resource_rows() -> list[_Document]:
    """Returns a row per resource of every release, those that only previews have after the others."""
    of_previews = [row for version in PREVIEWS for row in _preview(version)["resources"]]
    return [*load()["resources"], *of_previews]


@cache
def foreign_fields() -> dict[str, frozenset[str]]:
    """Returns, by definition, the fields that preview releases have with another type than the releases."""
    return {
        name: frozenset(fields)
        for version in PREVIEWS
        for name, fields in _preview(version)["foreign"].items()
    }


@cache
def _preview(version: Version) -> _Document:
    document: _Document = orjson.loads(preview_file(version).read_bytes())
    return document


def preview_file(version: Version) -> Path:
    """Returns where the changes of a preview release are."""
    return _DATA / "previews" / f"{version}.json"


def _laid_over(base: _Document, preview: _Document) -> _Document:
    """Returns the base's document with what the preview changes; the base stays as it is."""
    minor, gone = preview["base"], set(preview["without"]["versions"])
    rows = [row for row in base["resources"] if f"{row['g']}/{row['v']}" not in gone]
    specs = list(base["specs"])
    known = base["definitions"] | _copied(base["definitions"], preview["copies"], minor, specs)
    changed = {
        name: _definition(known.get(name), change, minor, specs)
        for name, change in preview["definitions"].items()
    }
    return base | {
        "groups": [*base["groups"], *preview["groups"]],
        "resources": [*rows, *preview["resources"]],
        "storage": base["storage"] | preview["storage"],
        "columns": base["columns"] | preview["columns"],
        "kinds": base["kinds"] | preview["kinds"],
        "specs": specs,
        "definitions": known | changed,
    }


def _copied(definitions: _Document, copies: dict[str, str], minor: int, specs: list[_Document]) -> _Document:
    """Returns definitions under other names, by which they refer to each other."""
    found: _Document = {}
    for new, old in copies.items():
        for name, entry in definitions.items():
            if name.startswith(old) and within(entry["in"], minor):
                fields = {field: _spec(history, minor, specs) for field, history in entry["f"].items()}
                change = {
                    field: {**spec, "t": spec["t"].replace(old, new)}
                    for field, spec in fields.items()
                    if spec
                }
                found[new + name.removeprefix(old)] = _definition(None, {"f": change}, minor, specs)
    return found


def _spec(history: Any, minor: int, specs: list[_Document]) -> _Document | None:
    """Returns what a definition says of a field at a minor; None if the field is not there."""
    place = at(history, minor) if isinstance(history, list) else history
    return None if place is None else specs[place]


def _definition(base: _Document | None, change: _Document, minor: int, specs: list[_Document]) -> _Document:
    """Returns a definition of the preview; new specs go to the end of `specs`."""
    kept = base if base is not None and "all" not in change else {"f": {}}
    fields = {name: history for name, history in kept["f"].items() if name not in change["f"]}
    for name, spec in change["f"].items():
        if spec is not None:
            fields[name] = len(specs)
            specs.append(spec)
    first = {name: fields[name] for name in ("kind", "apiVersion", "metadata") if name in fields}
    ordered = first | dict(sorted(fields.items()))
    said = {"doc": change["doc"]} if "doc" in change else {}
    return {name: value for name, value in kept.items() if name != "f"} | {
        "in": [[minor, minor]],
        "f": ordered,
        **said,
    }


def at(history: list[list[Any]], minor: int) -> Any:
    """Returns the value of a history at a minor; None outside of it."""
    for first, last, value in history:
        if first <= minor <= last:
            return value
    return None


def within(spans: list[list[int]], minor: int) -> bool:
    """Returns whether one of `[first, last]` spans holds the minor."""
    return any(first <= minor <= last for first, last in spans)

"""The catalogue's data files, and their values at a release.

A history is a list of `[first, last, value]`; a value that never changed is written without one. A preview
release's file has its changes to the catalogue of a minor, its base (see
`kubeskew/releases/catalogue/preview.py`).
"""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from kubeskew.apimachinery.versions import PREVIEWS, Version, supported

_DATA = Path(__file__).parents[1] / "data"
FILE = "catalogue.json"
CATALOGUE = _DATA / FILE

_Document = dict[str, Any]


class Release(NamedTuple):
    """`document` is read at `minor`; `served` names the API versions that are on although alpha or beta."""

    document: _Document
    minor: int
    served: frozenset[str]


@cache
def load() -> _Document:
    """The whole document (its shape: `kubeskew/releases/catalogue/assembly.py`); read once per process."""
    document: _Document = orjson.loads(CATALOGUE.read_bytes())
    return document


@cache
def release(version: Version) -> Release:
    """All minors share one document; a preview or imported release has one made for it alone.

    That of an imported release is in its directory, and complete.
    """
    if version.imported_from is not None:
        return Release(version.document(FILE), version.minor, frozenset())
    if not version.preview:
        return Release(load(), version.minor, frozenset())
    preview = _preview(version)
    return Release(_laid_over(load(), preview), preview["base"], frozenset(preview["served"]))


@cache
def described(version: Version) -> _Document:
    """A preview's texts, `{definition: {"doc": text, "fields": {field: text}}}`; empty for other releases."""
    if not version.preview:
        return {}
    return {
        name: {
            "doc": change.get("doc", ""),
            "fields": {field: spec["doc"] for field, spec in change["f"].items() if spec and "doc" in spec},
        }
        for name, change in _preview(version)["definitions"].items()
    }


def column_descriptions(version: Version) -> _Document:
    """An imported release's texts of columns, `{group/Kind: {column: text}}`; empty for other releases."""
    return version.document("columns.json") or {}


@cache
def preview_numbers() -> dict[str, dict[str, int]]:
    """Protobuf numbers of fields that only preview releases have, by definition."""
    return {name: numbers for version in PREVIEWS for name, numbers in _preview(version)["numbers"].items()}


@cache
def copied_definitions() -> dict[str, str]:
    """Maps a prefix of definition names in preview releases to the prefix of the definitions that these
    copy."""
    return {new: old for version in PREVIEWS for new, old in _preview(version)["copies"].items()}


def store_of(resource: str) -> str:
    """The log keeps a resource as `plural.group`, but some resources of preview releases under another
    name."""
    rows = (row for version in PREVIEWS for row in _preview(version)["resources"] if "store" in row)
    return next((row["store"] for row in rows if f"{row['r']}.{row['g']}" == resource), resource)


def resource_rows() -> list[_Document]:
    """One row per resource of any release; those of previews and of imported releases come last."""
    of_previews = [row for version in PREVIEWS for row in _preview(version)["resources"]]
    imported = (version for version in supported() if version.imported_from is not None)
    of_imported = [row for version in imported for row in release(version).document["resources"]]
    return [*load()["resources"], *of_previews, *of_imported]


@cache
def foreign_fields() -> dict[str, frozenset[str]]:
    """Fields, by definition, whose type in preview releases is not that of the releases."""
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
    return _DATA / "previews" / f"{version}.json"


def _laid_over(base: _Document, preview: _Document) -> _Document:
    minor, gone = preview["base"], set(preview["without"]["versions"])
    rows = [row for row in base["resources"] if f"{row['g']}/{row['v']}" not in gone]
    specs = list(base["specs"])
    known = base["definitions"] | _copied(base["definitions"], preview["copies"], minor, specs)
    changed = {
        name: _definition(known.get(name), change, minor, specs)
        for name, change in preview["definitions"].items()
    }
    return base | {
        "groups": [[minor, minor, [*at(base["groups"], minor), *preview["groups"]]]],
        "resources": [*rows, *preview["resources"]],
        "storage": base["storage"] | preview["storage"],
        "columns": base["columns"] | preview["columns"],
        "kinds": base["kinds"] | preview["kinds"],
        "specs": specs,
        "definitions": known | changed,
    }


def _copied(definitions: _Document, copies: dict[str, str], minor: int, specs: list[_Document]) -> _Document:
    """Copies definitions under new names; their references to each other follow."""
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
    """None if the field is not there at that minor."""
    place = at(history, minor) if isinstance(history, list) else history
    return None if place is None else specs[place]


def _definition(base: _Document | None, change: _Document, minor: int, specs: list[_Document]) -> _Document:
    """Specs that the preview brings are appended to `specs`."""
    kept = base if base is not None and "all" not in change else {"f": {}}
    fields = {name: history for name, history in kept["f"].items() if name not in change["f"]}
    for name, spec in change["f"].items():
        if spec is not None:
            fields[name] = len(specs)
            specs.append(spec)
    head = ("kind", "apiVersion", "metadata")
    first = {name: fields[name] for name in head if name in fields} if "apiVersion" in fields else {}
    ordered = first | dict(sorted(fields.items()))
    return {name: value for name, value in kept.items() if name != "f"} | {
        "in": [[minor, minor]],
        "f": ordered,
    }


def at(history: Any, minor: int) -> Any:
    """None outside of the history's spans. A value that never changed is written without them."""
    if not isinstance(history, list):
        return history
    for first, last, value in history:
        if first <= minor <= last:
            return value
    return None


def within(spans: list[list[int]] | int, minor: int) -> bool:
    """Spans are `[first, last]`, both inclusive; what is always there has 1 in their place."""
    return isinstance(spans, int) or any(first <= minor <= last for first, last in spans)

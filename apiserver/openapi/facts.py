"""Facts of published documents that the catalogue does not have, from `apimachinery/data/openapi.json`.

`hack/catalogue/openapi_facts.py` makes the file, and `kubeskew/releases/tree/document_facts.py` documents its
shape. A release of which it knows nothing has the facts of the nearest one that it knows.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import orjson

from kubeskew.apimachinery.catalogue import data
from kubeskew.apimachinery.versions import Version

FILE = data.CATALOGUE.parent / "openapi.json"


class Facts(NamedTuple):
    order: Mapping[str, list[str]]  # definition → required fields, as its Go struct lists them
    bare: frozenset[str]  # `definition.field`: references without a description
    extensions: Mapping[str, Mapping[str, Any]]  # definition or `definition.field` → extensions
    enums: Mapping[str, list[str]]  # `definition.field` → values, where the catalogue has others
    registered: tuple[tuple[str, str], ...]  # groups and versions that have DeleteOptions and WatchEvent
    returned: frozenset[str]  # `plural.group`, of which DELETE is documented to answer with the object
    shared: Mapping[str, Mapping[str, str]]  # options or none → parameter → end of its name in v2


NOTHING = Facts({}, frozenset(), {}, {}, (), frozenset(), {})


def document_of(version: Version) -> dict[str, Any]:
    """An imported release has a document of its own; the others share one."""
    return version.document("openapi.json") or _load()


@cache
def facts_of(version: Version) -> Facts:
    """Takes the nearest release that the document knows."""
    document = document_of(version)
    known = [int(release.partition(".")[2]) for release in document["origin"]]
    return _facts(document, min(max(version.base.minor, min(known)), max(known)))


@cache
def _load() -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(FILE.read_bytes())
    return document


def _facts(document: Mapping[str, Any], minor: int) -> Facts:
    def listed(section: str) -> list[str]:
        return [name for name, spans in document[section].items() if data.within(spans, minor)]

    def valued(section: Mapping[str, Any]) -> dict[str, Any]:
        found = {name: data.at(history, minor) for name, history in section.items()}
        return {name: value for name, value in found.items() if value is not None}

    registered = [name.rpartition("/") for name in listed("registered")]
    return Facts(
        order=document["order"],
        bare=frozenset(listed("bare")),
        extensions=valued(document["extensions"]),
        enums=valued(document["enums"]),
        registered=tuple(sorted((group, version) for group, _, version in registered)),
        returned=frozenset(listed("returned")),
        shared={options: valued(names) for options, names in document["shared"].items()},
    )

"""The order in which a tree's types write their JSON fields, and the structs that these are embedded in.

    {"structs": {definition name: "=definition name metadata spec"}, "embedded": 1}

A name after `=` is that of an embedded struct, whose fields stand there. `embedded` is there if the errors of
the JSON decoder (sigs.k8s.io/json) have the names of embedded structs in a field's path.
"""

from collections.abc import Iterable
from typing import Any

from kubeskew.releases.tree.go_syntax import GoFile, StructField
from kubeskew.releases.tree.go_types import MACHINERY, api_packages
from kubeskew.releases.tree.protobuf_numbers import definition_name
from kubeskew.releases.tree.source_tree import SourceTree

_DECODER = "vendor/sigs.k8s.io/json/internal/golang/encoding/json/decode.go"
_EMBEDDED = "="
_NAMES_EMBEDDED = "subv.Type().Field(ind).Name"


def json_fields(tree: SourceTree, published: Iterable[str]) -> dict[str, Any]:
    """Reads the fields of published types and of those that they embed."""
    table: dict[str, str] = {}
    others: dict[str, str] = {}
    for package in (*api_packages(tree), *MACHINERY):
        for file in tree.package(package).files():
            for declared in file.types():
                name = definition_name(package, declared.name)
                if declared.is_struct:
                    table[name] = " ".join(_names(declared.fields(), file))
                elif declared.text().replace(".", "").isidentifier():
                    others[name] = definition_name(*file.named(declared.text()))
    table |= {name: table[other] for name, other in others.items() if other in table}
    found: dict[str, Any] = {"structs": _needed(table, published)}
    decoder = tree.root / _DECODER
    return found | ({"embedded": 1} if decoder.is_file() and _NAMES_EMBEDDED in decoder.read_text() else {})


def _names(fields: Iterable[StructField], file: GoFile) -> Iterable[str]:
    for field in fields:
        name = field.json_name
        if "json" not in field.tags or name == "-":
            continue
        yield name or (_EMBEDDED + definition_name(*file.named(field.type)) if field.embedded else field.name)


def _needed(table: dict[str, str], published: Iterable[str]) -> dict[str, str]:
    names = {name for name in published if name in table}
    more = set(names)
    while more:
        embedded = {field[1:] for name in more for field in table[name].split() if field[0] == _EMBEDDED}
        more = (embedded & table.keys()) - names
        names |= more
    return {name: table[name] for name in sorted(names)}

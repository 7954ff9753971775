"""Protobuf field numbers of a tree's types, by the definition names of OpenAPI.

    {definition name: {JSON name: number, "=definition name": number of an embedded message}}

The fields of an embedded message belong, in JSON, to the object itself (`Volume` and `VolumeSource`).
"""

import re
from collections.abc import Iterable, Iterator

from kubeskew.releases.tree.go_syntax import GoFile, StructField, TreeError
from kubeskew.releases.tree.go_types import MACHINERY, api_packages
from kubeskew.releases.tree.source_tree import SourceTree

Numbers = dict[str, int]

_EMBEDDED = "="
_PACKAGES = (
    *MACHINERY,
    "k8s.io/apimachinery/pkg/api/resource",
    "k8s.io/apimachinery/pkg/runtime",
    "k8s.io/apimachinery/pkg/util/intstr",
    "k8s.io/apimachinery/pkg/version",
)
_MODULE = re.compile(r"k8s\.io/((?:api|apimachinery|apiextensions-apiserver|kube-aggregator)/.*)$")
_NUMBER = re.compile(r"\w+,(\d+),")
_NAME = re.compile(r"(?:\w+\.)?[A-Za-z]\w*$")


def protobuf_numbers(tree: SourceTree) -> dict[str, Numbers]:
    """Raises TreeError where a type has a number twice."""
    table: dict[str, Numbers] = {}
    others: dict[str, str] = {}
    for package in (*api_packages(tree), *_PACKAGES):
        for file in tree.package(package).files():
            for declared in file.types():
                name = definition_name(package, declared.name)
                if declared.is_struct:
                    table[name] = _ordered(_numbers(declared.fields(), file))
                elif _NAME.match(declared.text()):
                    others[name] = definition_name(*file.named(declared.text()))
                if len(set(table.get(name, {}).values())) < len(table.get(name, {})):
                    raise TreeError(
                        f"{file.path}: {declared.name} has a protobuf number twice; fix it and import again"
                    )
    for name, other in others.items():
        if other in table:
            table.setdefault(name, table[other])
    return dict(sorted(table.items()))


def needed(table: dict[str, Numbers], published: Iterable[str]) -> dict[str, Numbers]:
    """The rows of published types and of those that they embed, in order."""
    names = {name for name in published if name in table}
    more = set(names)
    while more:
        embedded = {key[1:] for name in more for key in table[name] if key[0] == _EMBEDDED}
        more = (embedded & table.keys()) - names
        names |= more
    return {name: _ordered(table[name]) for name in sorted(names)}


def definition_name(package: str, name: str) -> str:
    """`k8s.io/api/core/v1`, `Pod` → `io.k8s.api.core.v1.Pod`; empty for other modules' types."""
    found = _MODULE.match(package)
    return f"io.k8s.{found[1].replace('/', '.')}.{name}" if found else ""


def _numbers(fields: Iterable[StructField], file: GoFile) -> Numbers:
    return dict(_numbered(fields, file))


def _numbered(fields: Iterable[StructField], file: GoFile) -> Iterator[tuple[str, int]]:
    for field in fields:
        tags, name = field.tags, field.json_name
        number = _NUMBER.match(tags.get("protobuf", ""))
        if number is None or "json" not in tags or name == "-":
            continue
        is_inline = field.embedded and not name
        key = _EMBEDDED + definition_name(*file.named(field.type)) if is_inline else name or field.name
        yield key, int(number[1])


def _ordered(numbers: Numbers) -> Numbers:
    return dict(sorted(numbers.items(), key=lambda item: item[1]))

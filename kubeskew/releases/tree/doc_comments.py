"""Descriptions that upstream's generators would make of the comments of Go types.

A tree's published documents have the texts of what was there when they were made; types and fields that are
newer have their comments alone.

Source: k8s.io/kube-openapi pkg/generators/openapi.go (generateDescription) and k8s.io/gengo, 1.36.
"""

import re
from collections.abc import Iterator
from typing import Any

from kubeskew.releases.tree.go_syntax import GoFile, TypeDeclaration
from kubeskew.releases.tree.go_types import api_packages
from kubeskew.releases.tree.protobuf_numbers import definition_name
from kubeskew.releases.tree.source_tree import SourceTree

_DIRECTIVE = re.compile(r"[a-z0-9]+:[a-z0-9]")


class Comments:
    """Descriptions of the API's types in a tree."""

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree

    def definitions(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Pairs names of structs' definitions with `{"doc": text, "fields": {field: text}}`."""
        for path in api_packages(self._tree):
            for name, declaration in sorted(self._tree.package(path).types.items()):
                if declaration.is_struct:
                    fields = {field: text for field, text in self._fields(declaration) if text}
                    documented = {"doc": description(declaration.doc), "fields": fields}
                    yield definition_name(path, name), documented

    def _fields(self, declaration: TypeDeclaration) -> Iterator[tuple[str, str]]:
        """The fields of structs that are embedded belong to the struct around them."""
        for field in declaration.fields():
            name = field.json_name
            if name and name != "-":
                yield name, description(field.doc)
            elif field.embedded and not name:
                embedded = self._declared(field.type, declaration.file)
                if embedded is not None:
                    yield from self._fields(embedded)

    def _declared(self, expression: str, file: GoFile) -> TypeDeclaration | None:
        """The declaration behind a name, which may be an alias of another."""
        found = self._tree.declared_type(expression, file)
        if found is not None and found.alias:
            return self._declared(found.text(), found.file)
        return found


def description(comment: tuple[str, ...]) -> str:
    """Lines of a paragraph become one; indented lines stay lines. Markers go, and lines that begin with TODO,
    which upstream publishes neither.

    Source: fmtRawDoc of staging/src/k8s.io/apimachinery/pkg/runtime/swagger_doc_generator.go, 1.36.
    """
    made, empty = "", False
    for line in comment:
        if line == "---":
            break
        if not line:
            made = made if empty else made[:-1] + "\n\n"
        elif line.lstrip(" ").startswith(("TODO", "+")) or _DIRECTIVE.match(line):
            continue
        elif line.startswith((" ", "\t")):
            made = made[:-1] + f"\n{line}\n"
        else:
            made += f"{line} "
        empty = not line
    return made.strip("\n").strip(" ")

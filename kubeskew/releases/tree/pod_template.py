"""The layout of a tree's PodTemplateSpec in Go, which the hash of a template depends on.

Each struct is a list of its fields in order, [name, JSON name, type]; any other type that has a name is what
it is made of. An embedded field has no JSON name, and the name of its type.
"""

import re

from kubeskew.releases.tree.go_syntax import GoFile, TypeDeclaration
from kubeskew.releases.tree.source_tree import API, META, SourceTree

_ROOT = "v1.PodTemplateSpec"
_PACKAGES = (f"{API}/core/v1", META)
_NAME = re.compile(r"(?:(\w+)\.)?([A-Za-z_]\w*)")
_BUILT_IN = {"string", "bool", "int32", "int64", "byte", "map"}

Layout = dict[str, list[list[str]] | str]


def pod_template(tree: SourceTree) -> Layout:
    declared = {name: one for path in _PACKAGES for name, one in tree.package(path).types.items()}
    found: Layout = {}
    missing = [_ROOT]
    while missing:
        name = missing.pop()
        known = declared.get(name.removeprefix("v1."))
        if name in found or known is None or not name.startswith("v1."):
            continue
        shape = _shape(known)
        if shape:
            found[name] = shape
        kinds = [shape] if isinstance(shape, str) else [kind for _, _, kind in shape]
        missing += [f"{each[1]}.{each[2]}" for kind in kinds for each in _NAME.finditer(kind) if each[1]]
    return dict(sorted(found.items()))


def _shape(declared: TypeDeclaration) -> list[list[str]] | str:
    if not declared.is_struct:
        return _reflected(declared.text(), declared.file)
    return [
        [
            field.name,
            field.json_name,
            _reflected(field.type, declared.file),
        ]
        for field in declared.fields()
        if "json" in field.tags
    ]


def _reflected(expression: str, file: GoFile) -> str:
    """Reflection names a type with the package's last name."""

    def full(found: re.Match[str]) -> str:
        qualifier, name = found[1], found[2]
        if qualifier:
            return f"{file.imports.get(qualifier, qualifier).rpartition('/')[2]}.{name}"
        return name if name in _BUILT_IN else f"v1.{name}"

    return _NAME.sub(full, expression)

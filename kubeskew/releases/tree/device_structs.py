"""The structs of a tree's internal types of resource.k8s.io, in the order of their fields.

    {"resource.DeviceClaim": [["Requests", "[]resource.DeviceRequest"], …], …}

Field errors show whole structs of these types (kubeskew/apimachinery/golang/device_structs.py). An embedded
field has no name; a type that is no struct is what it is made of.
"""

import re

from kubeskew.releases.tree.go_syntax import GoFile, TypeDeclaration
from kubeskew.releases.tree.source_tree import INTERNAL_APIS, META, SourceTree

GROUPS = {"resource": "", "core": "NodeSelector"}  # with the beginning of the names that are wanted
_CALLED = {
    META: "metav1",
    "k8s.io/apimachinery/pkg/api/resource": "resource",
    "k8s.io/apimachinery/pkg/runtime": "runtime",
}
_NAME = re.compile(r"(?:(\w+)\.)?([A-Za-z_]\w*)")

Structs = dict[str, list[list[str]] | str]


def device_structs(tree: SourceTree) -> Structs:
    found: Structs = {}
    for group, beginning in GROUPS.items():
        file = tree.package(f"{INTERNAL_APIS}/{group}").file("types.go")
        for declared in file.types() if file is not None else ():
            if declared.name.startswith(beginning):
                found[f"{group}.{declared.name}"] = _shape(declared, group)
    return dict(sorted(found.items()))


def _shape(declared: TypeDeclaration, group: str) -> list[list[str]] | str:
    if not declared.is_struct:
        return _qualified(declared.text(), declared.file, group)
    return [
        ["" if field.embedded else field.name, _qualified(field.type, declared.file, group)]
        for field in declared.fields()
    ]


def _qualified(expression: str, file: GoFile, group: str) -> str:
    """Names of internal types have their group before them; others are as the file writes them, or known."""

    def full(found: re.Match[str]) -> str:
        qualifier, name = found[1], found[2]
        if qualifier:
            path = file.imports.get(qualifier, "")
            internal = path.startswith(f"{INTERNAL_APIS}/")
            inside = path.removeprefix(f"{INTERNAL_APIS}/") if internal else qualifier
            return f"{_CALLED.get(path, inside)}.{name}"
        return f"{group}.{name}" if name[0].isupper() else name

    return _NAME.sub(full, expression)

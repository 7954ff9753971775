"""Fields of a tree's internal types (pkg/apis/GROUP), which field errors and differences show.

The internal types have no JSON names, so Go writes their own names, and every field of them. Types with JSON
names (metav1) are left out, and those of resource.k8s.io, which `device_structs.py` reads.

    {"core.Toleration": [["Key", "s"], …]}

The second of a pair is the way in which the field is shown: one letter, or a type with a mark before it
(kubeskew/apiserver/internal_types.py).
"""

import re

from kubeskew.releases.tree.go_syntax import CIRCLE, GoFile, TreeError, TypeDeclaration
from kubeskew.releases.tree.source_tree import INTERNAL_APIS, META, SourceTree

GROUPS = (
    "admissionregistration", "apps", "autoscaling", "batch", "certificates", "coordination", "core",
    "discovery", "flowcontrol", "networking", "node", "policy", "rbac", "scheduling", "storage",
)  # fmt: skip
_SORTS = {"string": "s", "bool": "b", "int": "i", "int32": "i", "int64": "i", "float64": "i", "byte": "i"} | {
    "k8s.io/apimachinery/pkg/types.UID": "s",
    "k8s.io/apimachinery/pkg/types.NodeName": "s",
    "k8s.io/apimachinery/pkg/util/intstr.IntOrString": "i",
    "k8s.io/apimachinery/pkg/api/resource.Quantity": "q",
    f"{META}.Time": "n",
    f"{META}.MicroTime": "n",
    f"{META}.ObjectMeta": "m",
    f"{META}.LabelSelector": "l",
    f"{META}.ListMeta": "e",
}
_FOREIGN_STRUCT = "e"  # one with JSON names
_MARKED = re.compile(r"(\*|\[\]|map\[[^]]*\])(.*)$", re.DOTALL)
_MARKS = {"*": "*", "[]": "[", "map[": "{"}

Shape = list[list[str]]


def internal_types(tree: SourceTree) -> dict[str, Shape]:
    """Pairs the Go name of each field with its sort or type, by internal struct.

    Raises TreeError for types that are made of themselves.
    """
    try:
        return _Types(tree).shapes()
    except RecursionError:
        raise TreeError(f"{tree.root}/pkg/apis: types {CIRCLE}") from None


class _Types:
    def __init__(self, tree: SourceTree) -> None:
        self._declared = {
            f"{group}.{name}": declared
            for group in GROUPS
            for name, declared in tree.package(f"{INTERNAL_APIS}/{group}").types.items()
        }

    def shapes(self) -> dict[str, Shape]:
        return {
            name: shape
            for name, declared in sorted(self._declared.items())
            if declared.is_struct and (shape := self._fields(declared))
        }

    def _fields(self, declared: TypeDeclaration) -> Shape:
        """Fields of embedded structs are among a struct's own; there are none if it has JSON names."""
        found: Shape = []
        for field in declared.fields():
            full = _full_name(field.type, declared.file)
            if not field.embedded:
                if "json:" in field.tag:
                    return []
                found.append([field.name, self._sort(field.type, declared.file)])
            elif field.name == "ObjectMeta":
                found.append(["ObjectMeta", "m"])
            elif full in self._declared and self._declared[full].is_struct:
                found += self._fields(self._declared[full])
        return found

    def _sort(self, expression: str, file: GoFile) -> str:
        if marked := _MARKED.match(expression):
            mark = "map[" if marked[1].startswith("map[") else marked[1]
            inner = self._sort(marked[2], file)
            return _MARKS[mark] + inner if "." in inner or (mark == "*" and inner in {"m", "l"}) else "n"
        name = _full_name(expression, file)
        if name in _SORTS:
            return _SORTS[name]
        declared = self._declared.get(name)
        if declared is None:
            return _FOREIGN_STRUCT
        return name if declared.is_struct else self._sort(declared.text(), declared.file)


def _full_name(expression: str, file: GoFile) -> str:
    """`core.PodSpec` of an internal type, the import path and the name of another, scalars as they are."""
    if expression in _SORTS:
        return expression
    path, name = file.named(expression)
    return f"{path.removeprefix(f'{INTERNAL_APIS}/')}.{name}"

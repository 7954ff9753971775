"""Values of constant expressions: literals, constants of the tree, conversions, pointers to these.

`UNKNOWN` stands for what is none of them: a call, a sum, an iota, a variable.
"""

import json
from typing import Final

from tree_sitter import Node

from kubeskew.releases.tree.go_syntax import GoFile, TypeDeclaration, text_of
from kubeskew.releases.tree.source_tree import SourceTree


class _Unknown:
    def __bool__(self) -> bool:
        return False


UNKNOWN: Final = _Unknown()
Scalar = str | int | float | bool | None | _Unknown

_LITERALS: Final = {"true": True, "false": False, "nil": None}
# Functions that give what they are given: as a pointer, or as a number or a string.
_PASSING: Final = {("k8s.io/utils/ptr", "To")} | {
    (package, name)
    for package, names in (
        ("k8s.io/utils/pointer", ("Bool", "Int", "Int32", "Int64", "String", "To")),
        ("k8s.io/apimachinery/pkg/util/intstr", ("FromInt", "FromInt32", "FromString")),
    )
    for name in names
}
_SCALARS: Final = {"string", "bool", "int", "int32", "int64", "uint", "uint32", "uint64", "float64", "byte"}
_MOST_STEPS: Final = 16  # constants that name each other in a circle are no Go


class Constants:
    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self._declared: dict[str, dict[str, tuple[GoFile, str, Node | None]]] = {}
        self._types: dict[str, dict[str, TypeDeclaration]] = {}

    def value(self, node: Node, file: GoFile) -> Scalar:
        """The value of an expression of a file; that of a pointer is the value behind it."""
        return self._value(node, file, 0)[0]

    def of(self, package: str, name: str) -> Scalar:
        """The value of a constant by its package and name."""
        return self.typed(name, package)[1] if name in self._of(package) else UNKNOWN

    def typed(self, name: str, package: str) -> tuple[str, Scalar]:
        """The type that a constant of a package is declared with, as its file writes it, and its value."""
        file, kind, node = self._of(package)[name]
        if node is None:
            return kind, UNKNOWN
        value, converted = self._value(node, file, 0)
        return kind or converted, value

    def names(self, package: str) -> list[str]:
        """Names of the package's constants in the order of the source."""
        return list(self._of(package))

    def _of(self, package: str) -> dict[str, tuple[GoFile, str, Node | None]]:
        if package not in self._declared:
            self._declared[package] = {
                constant.name: (file, constant.type, constant.node)
                for file in self._tree.package(package).files()
                for constant in file.constants()
            }
        return self._declared[package]

    def _value(self, node: Node, file: GoFile, steps: int) -> tuple[Scalar, str]:
        """A value and the type that a conversion gives it."""
        if steps > _MOST_STEPS:
            return UNKNOWN, ""
        match node.type:
            case "interpreted_string_literal":
                return _quoted(text_of(node)), ""
            case "raw_string_literal":
                return text_of(node)[1:-1], ""
            case "int_literal" | "float_literal" | "unary_expression":
                return _number(text_of(node)), ""
            case "true" | "false" | "nil":
                return _LITERALS[node.type], ""
            case "parenthesized_expression":
                return self._value(node.named_children[0], file, steps + 1)
            case "identifier" | "selector_expression":
                return self._named(node, file, steps), ""
            case "call_expression":
                return self._converted(node, file, steps)
            case "type_conversion_expression":  # ptr.To[int32](1)
                return self._instantiated(node, file, steps)
        return UNKNOWN, ""

    def _named(self, node: Node, file: GoFile, steps: int) -> Scalar:
        package, name = _place(node, file)
        found = self._of(package).get(name) if package else None
        if found is None or found[2] is None:
            return UNKNOWN
        return self._value(found[2], found[0], steps + 1)[0]

    def _converted(self, node: Node, file: GoFile, steps: int) -> tuple[Scalar, str]:
        function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if function is None or arguments is None or arguments.named_child_count != 1:
            return UNKNOWN, ""
        passes = _place(function, file) in _PASSING
        if not passes and not self._is_type(function, file):
            return UNKNOWN, ""
        value, kind = self._value(arguments.named_children[0], file, steps + 1)
        return value, kind if passes else text_of(function)

    def _instantiated(self, node: Node, file: GoFile, steps: int) -> tuple[Scalar, str]:
        qualifier, _, name = text_of(node).partition("[")[0].rpartition(".")
        if (file.imports.get(qualifier, ""), name) not in _PASSING or len(node.named_children) != 2:
            return UNKNOWN, ""
        return self._value(node.named_children[1], file, steps + 1)

    def _is_type(self, function: Node, file: GoFile) -> bool:
        """Only types of the tree are known, and Go's own."""
        package, name = _place(function, file)
        if package == file.package and name in _SCALARS:
            return True
        if not package:
            return False
        if package not in self._types:
            self._types[package] = self._tree.package(package).types()
        declared = self._types[package].get(name)
        return declared is not None and not declared.is_struct


def _place(node: Node, file: GoFile) -> tuple[str, str]:
    """The package and name that an identifier stands for; no package if it is not imported."""
    if node.type == "identifier":
        return file.package, text_of(node)
    qualifier, name = node.child_by_field_name("operand"), node.child_by_field_name("field")
    if node.type != "selector_expression" or qualifier is None or name is None:
        return "", ""
    return file.imports.get(text_of(qualifier), ""), text_of(name)


def _quoted(text: str) -> Scalar:
    try:
        found: str = json.loads(text)
    except ValueError:  # an escape that JSON lacks
        return UNKNOWN
    return found


def _number(text: str) -> Scalar:
    try:
        return int(text, 8) if text.isdigit() and text[0] == "0" else int(text.replace("_", ""), 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return UNKNOWN

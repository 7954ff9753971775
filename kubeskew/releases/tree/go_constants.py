"""Constants of a tree with their types, and values of expressions that are no error if they are none.

`UNKNOWN` stands for what is no constant: another call, an iota, a variable.
"""

from typing import Final

from tree_sitter import Node

from kubeskew.releases.tree.go_syntax import GoFile, TreeError, Value, text_of
from kubeskew.releases.tree.go_values import Call, Literal, Reference, Scope
from kubeskew.releases.tree.source_tree import SourceTree


class _Unknown:
    def __bool__(self) -> bool:
        return False


UNKNOWN: Final = _Unknown()
Scalar = str | int | float | bool | None | _Unknown

# Functions that give what they are given: as a pointer, or as a number or a string.
_PASSING: Final = {Reference("k8s.io/utils/ptr", "To")} | {
    Reference(package, name)
    for package, names in (
        ("k8s.io/utils/pointer", ("Bool", "Int", "Int32", "Int64", "String", "To")),
        ("k8s.io/apimachinery/pkg/util/intstr", ("FromInt", "FromInt32", "FromString")),
    )
    for name in names
}


class Constants:
    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree

    def value(self, node: Node, file: GoFile) -> Scalar:
        """The value of an expression of a file; that of a pointer is the value behind it."""
        if node.type == "type_conversion_expression":  # ptr.To[int32](1)
            passes = Reference(*file.named(text_of(node).partition("[")[0])) in _PASSING
            return self.value(node.named_children[-1], file) if passes else UNKNOWN
        try:
            found = Scope(self._tree, file).value(node)
        except TreeError:
            return UNKNOWN
        if isinstance(found, Call):
            passes = found.function in _PASSING and len(found.arguments) == 1
            return self.value(found.arguments[0], file) if passes else UNKNOWN
        return UNKNOWN if isinstance(found, Literal | Reference) else found

    def of(self, package: str, name: str) -> Scalar:
        """The value of a constant by its package and name."""
        constant = self._tree.package(package).constants.get(name)
        return self.typed(constant)[1] if constant is not None else UNKNOWN

    def typed(self, constant: Value) -> tuple[str, Scalar]:
        """The type of a constant, as its file writes it, and its value."""
        kind, node = constant.type, constant.node
        if node is None:
            return kind, UNKNOWN
        function = node.child_by_field_name("function") if node.type == "call_expression" else None
        return kind or (text_of(function) if function is not None else ""), self.value(node, constant.file)

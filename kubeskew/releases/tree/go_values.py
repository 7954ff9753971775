"""Values of Go expressions as far as they are constant: literals, constants across packages, composites.

Nothing is type-checked. A composite literal comes with its entries as syntax nodes, which its reader
evaluates one by one; a name that is no constant of the tree comes as a `Reference`, a call as a `Call`.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from kubeskew.releases.tree.go_syntax import GoFile, TreeError, text_of
from kubeskew.releases.tree.source_tree import Packages

# Components run on Linux: a value that depends on the operating system is what it is there.
_PREDECLARED = {("runtime", "GOOS"): "linux"}
_DEPTH = 40


@dataclass(frozen=True, slots=True)
class Reference:
    """A function, type or variable. `package` is an import path, empty of a local name."""

    package: str
    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """`function` is None if it is no plain name of a package but a method or an expression."""

    function: Reference | None
    arguments: tuple[Node, ...]
    node: Node


@dataclass(frozen=True, slots=True)
class Literal:
    """A composite literal. `type` is as written, empty where Go lets it out."""

    type: str
    entries: tuple[tuple[Node | None, Node], ...]
    scope: "Scope"
    node: Node

    def fields(self) -> dict[str, Node]:
        """Entries of a struct by the names of its fields."""
        return {text_of(key): value for key, value in self.entries if key is not None}

    def text(self, name: str) -> str:
        """The string that a field has. Raises TreeError if the literal lacks it."""
        found = self.fields().get(name)
        if found is None:
            raise unreadable(self.scope.file, self.node, f"{name} is missing")
        return self.scope.text(found)

    def elements(self) -> list[Node]:
        return [value for _, value in self.entries]


_GATE = Reference("k8s.io/component-base/featuregate", "Feature")
Constant = str | int | float | bool | None
Evaluated = Constant | Literal | Call | Reference


def unreadable(file: GoFile, node: Node, problem: str) -> TreeError:
    """An error in one line that names the file, the line and the expression."""
    shown = " ".join(text_of(node).split())
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return TreeError(f"{file.path}:{node.start_point.row + 1}: {problem}: {shown}")


@dataclass(frozen=True)
class Scope:
    """The names that an expression sees. `locals` are those of its function, by what was assigned to them."""

    tree: Packages
    file: GoFile
    locals: Mapping[str, Evaluated] = field(default_factory=dict)

    def text(self, node: Node) -> str:
        """The string that an expression is. Raises TreeError if it is none."""
        found = self.value(node)
        if not isinstance(found, str):
            raise unreadable(self.file, node, "this is no string constant that can be read")
        return found

    def boolean(self, node: Node) -> bool:
        found = self.value(node)
        if not isinstance(found, bool):
            raise unreadable(self.file, node, "this is no boolean constant that can be read")
        return found

    def number(self, node: Node) -> int:
        found = self.value(node)
        if not isinstance(found, int) or isinstance(found, bool):
            raise unreadable(self.file, node, "this is no number that can be read")
        return found

    def literal(self, node: Node) -> Literal:
        found = self.value(node)
        if not isinstance(found, Literal):
            raise unreadable(self.file, node, "this is no composite literal that can be read")
        return found

    def value(self, node: Node, depth: int = 0) -> Evaluated:
        """Raises TreeError for what no constant expression is made of."""
        if depth > _DEPTH:
            raise unreadable(self.file, node, "this leads to itself")
        match node.type:
            case "literal_element" | "parenthesized_expression" | "expression_list":
                return self.value(node.named_children[0], depth + 1)
            case "composite_literal" | "literal_value":
                return self._literal(node)
            case "unary_expression":
                return self._unary(node, depth)
            case "binary_expression":
                return self._binary(node, depth)
            case "call_expression":
                return self._call(node, depth)
            case "identifier" | "selector_expression" | "type_identifier":
                return self._named(node, depth)
        try:
            return self._basic(node)
        except SyntaxError:
            raise unreadable(self.file, node, "this is no text of Go") from None

    def reference(self, node: Node) -> Reference | None:
        """The name that an identifier or `package.Name` stands for; None of anything else."""
        if node.type in ("identifier", "type_identifier"):
            return Reference(self.file.package, text_of(node))
        if node.type == "selector_expression":
            operand, name = node.child_by_field_name("operand"), node.child_by_field_name("field")
            if operand is not None and name is not None and operand.type == "identifier":
                package = self.file.imports.get(text_of(operand))
                if package is not None:
                    return Reference(package, text_of(name))
        return None

    def _basic(self, node: Node) -> Constant:
        written = text_of(node)
        match node.type:
            case "interpreted_string_literal" | "rune_literal":
                return str(ast.literal_eval(written))
            case "raw_string_literal":
                return written[1:-1]
            case "int_literal":
                return _integer(written.replace("_", ""))
            case "float_literal":
                return float(written.replace("_", ""))
            case "true" | "false":
                return node.type == "true"
            case "nil":
                return None
        raise unreadable(self.file, node, "this expression cannot be read")

    def _named(self, node: Node, depth: int) -> Evaluated:
        if node.type != "selector_expression" and text_of(node) in self.locals:
            return self.locals[text_of(node)]
        reference = self.reference(node)
        if reference is None:
            return self._field(node, depth)
        known = _PREDECLARED.get((reference.package, reference.name))
        if known is not None:
            return known
        found = declared(self.tree, reference)
        if found is None:
            return reference
        value, file = found
        return Scope(self.tree, file).value(value, depth + 1)

    def _field(self, node: Node, depth: int) -> Evaluated:
        """`SchemeGroupVersion.Version`: a field of a struct that is known."""
        operand, name = node.child_by_field_name("operand"), node.child_by_field_name("field")
        if operand is not None and name is not None:
            owner = self.value(operand, depth + 1)
            if isinstance(owner, Literal) and text_of(name) in owner.fields():
                return owner.scope.value(owner.fields()[text_of(name)], depth + 1)
        return Reference("", text_of(node))

    def _literal(self, node: Node) -> Literal:
        kind = node.child_by_field_name("type")
        body = node.child_by_field_name("body") if node.type == "composite_literal" else node
        entries: list[tuple[Node | None, Node]] = []
        for child in body.named_children if body is not None else ():
            if child.type == "keyed_element":
                key, value = child.child_by_field_name("key"), child.child_by_field_name("value")
                if key is not None and value is not None:
                    entries.append((_inner(key), _inner(value)))
            elif child.type == "literal_element":
                entries.append((None, _inner(child)))
        return Literal(text_of(kind) if kind is not None else "", tuple(entries), self, node)

    def _unary(self, node: Node, depth: int) -> Evaluated:
        operand = self.value(node.named_children[0], depth + 1)
        match text_of(node.children[0]):
            case "!" if isinstance(operand, bool):
                return not operand
            case "-" if isinstance(operand, int | float):
                return -operand
            case "&":
                return operand
        raise unreadable(self.file, node, "this expression cannot be read")

    def _binary(self, node: Node, depth: int) -> Evaluated:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = text_of(node.children[1])
        if left is None or right is None:
            raise unreadable(self.file, node, "this expression cannot be read")
        one, other = self.value(left, depth + 1), self.value(right, depth + 1)
        match operator:
            case "+" if isinstance(one, str) and isinstance(other, str):
                return one + other
            case "+" if isinstance(one, int) and isinstance(other, int):
                return one + other
            case "==" if isinstance(one, Constant) and isinstance(other, Constant):
                return one == other
            case "!=" if isinstance(one, Constant) and isinstance(other, Constant):
                return one != other
            case "&&" if isinstance(one, bool) and isinstance(other, bool):
                return one and other
            case "||" if isinstance(one, bool) and isinstance(other, bool):
                return one or other
        raise unreadable(self.file, node, "this expression cannot be read")

    def _call(self, node: Node, depth: int) -> Evaluated:
        """A call; of a conversion, `Feature("Name")` or `string(x)`, what is converted."""
        function, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        arguments = tuple(
            child for child in (listed.named_children if listed else ()) if child.type != "comment"
        )
        reference = self.reference(function) if function is not None else None
        if reference is not None and len(arguments) == 1 and self._is_type(reference):
            return self.value(arguments[0], depth + 1)
        return Call(reference, arguments, node)

    def _is_type(self, reference: Reference) -> bool:
        if reference == _GATE:
            return True
        if reference.package == self.file.package and reference.name in ("string", "int", "int32", "int64"):
            return True
        return reference.name in self.tree.package(reference.package).types


def declared(tree: Packages, reference: Reference) -> tuple[Node, GoFile] | None:
    """The value of a package's constant or variable, with its file; None if it has none that is written."""
    return tree.package(reference.package).values.get(reference.name) if reference.package else None


def _inner(node: Node) -> Node:
    return node.named_children[0] if node.type == "literal_element" else node


def _integer(written: str) -> int:
    """Go reads a number that begins with 0 as octal."""
    return int(written, 8 if written.isdigit() and written[0] == "0" else 0)

"""Defaults that functions of a tree set (`SetDefaults_…` in pkg/apis), if they are of known shapes.

    {"defaults": {definition: {"spec.ports[].protocol": {"d": "TCP"}, "spec.surge": {"d": 1, "g": [gate]}}},
     "unread": [["pkg/apis/core/v1/defaults.go:143: SetDefaults_Pod", definition, ["spec.os", …]], …]}

A known shape sets a field that is unset (nil, "", 0 or of no length) to a constant or to an empty struct, in
the struct itself, in one that is set, in each item of a list, or where one feature gate is on. A function
that does something else, too, is `unread`, with the fields that the rest may set; what is known of it counts
unless the rest sets the same field.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tree_sitter import Node

from kubeskew.releases.tree.go_constants import UNKNOWN, Constants
from kubeskew.releases.tree.go_syntax import (
    CIRCLE,
    Function,
    GoFile,
    TreeError,
    TypeDeclaration,
    asked_gate,
    assigned,
    nodes_of,
    statements,
    text_of,
)
from kubeskew.releases.tree.protobuf_numbers import definition_name
from kubeskew.releases.tree.source_tree import INTERNAL_APIS, Package, SourceTree

Document = dict[str, Any]

_PREFIX = "SetDefaults_"
_EMPTY = ("nil", '""', "0", "``")
_ITEM = "[]"
_LONGER = ("selector_expression", "index_expression")  # what they begin with is no place of its own


def defaults(tree: SourceTree) -> Document:
    """Raises TreeError where a file is no Go, or types are made of themselves."""
    found: dict[str, Document] = {}
    unread = []
    reader = _Reader(tree)
    for folder in sorted(tree.directory(INTERNAL_APIS).glob("*/v*")):
        for file in _files(tree.package(f"{INTERNAL_APIS}/{folder.parent.name}/{folder.name}")):
            for function in file.functions():
                if not function.name.startswith(_PREFIX) or function.receiver:
                    continue
                try:
                    name, known, rest = reader.read(function, file)
                except RecursionError:
                    raise TreeError(f"{file.path}: types of {function.name} {CIRCLE}") from None
                if known:
                    found[name] = found.get(name, {}) | known
                if rest is not None:
                    path = file.path.relative_to(tree.root).as_posix()
                    line = function.node.start_point.row + 1
                    unread.append([f"{path}:{line}: {function.name}", name, rest])
    return {"defaults": dict(sorted(found.items())), "unread": unread}


def _files(package: Package) -> Iterator[GoFile]:
    for name in package.names:
        text = (package.directory / name).read_bytes()
        if b"\nfunc " + _PREFIX.encode() in text and not name.startswith("zz_generated"):
            file = package.file(name)
            if file is not None:
                yield file


@dataclass(frozen=True)
class _Place:
    """A field in the struct that a function is given, by the names of Go: `Spec`, `Ports`, `[]`."""

    path: tuple[str, ...]

    def of(self, *names: str) -> "_Place":
        return _Place((*self.path, *names))


@dataclass
class _Run:
    """The state in which a function is read. `names` are its variables: places, values, or unknown."""

    file: GoFile
    names: dict[str, Any]
    filled: dict[tuple[str, ...], Document] = field(default_factory=dict)
    touched: set[tuple[str, ...]] = field(default_factory=set)
    whole: bool = True
    ended: bool = False  # the function may have returned


class _Reader:
    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self._constants = Constants(tree)

    def read(self, function: Function, file: GoFile) -> tuple[str, Document, list[str] | None]:
        """The definition, its known defaults by path, and the fields that something else may set.

        The last is None if the function does nothing else.
        """
        parameters = function.parameters()
        if len(parameters) != 1 or function.body is None:
            return "", {}, []
        name, kind = parameters[0]
        package, type_name = file.named(kind)
        run = _Run(file, {name: _Place(())})
        self._block(function.body, run, ())
        definition = definition_name(package, type_name)
        known: Document = {}
        for path, default in run.filled.items():
            if any(path[: len(touched)] == touched for touched in run.touched):
                continue
            written = self._json_path(package, type_name, path)
            if written:
                known[written] = default
            else:
                run.whole = False
        touched = (self._json_path(package, type_name, path) for path in sorted(run.touched))
        rest = None if run.whole else [path for path in touched if path]
        return definition, known if definition else {}, rest

    # --- statements ------------------------------------------------------------------------------------

    def _block(self, block: Node, run: _Run, gates: tuple[str, ...]) -> None:
        for statement in statements(block):
            if run.ended or not self._statement(statement, run, gates):
                run.whole = False
                run.ended = run.ended or next(nodes_of(statement, "return_statement"), None) is not None
                self._touch(statement, run)

    def _statement(self, node: Node, run: _Run, gates: tuple[str, ...]) -> bool:
        match node.type:
            case "if_statement":
                return self._if(node, run, gates)
            case "short_var_declaration" | "var_declaration" | "const_declaration":
                return self._declare(node, run)
            case "for_statement":
                return self._for(node, run, gates)
        return False

    def _declare(self, node: Node, run: _Run) -> bool:
        """Variables that are made: a place's address, or a constant."""
        spec = next(nodes_of(node, "var_spec", "const_spec"), node)
        left = node.child_by_field_name("left")
        name = spec.child_by_field_name("name") if left is None else left.named_children[0]
        right = node.child_by_field_name("right") or spec.child_by_field_name("value")
        if name is None or right is None or len(right.named_children) != 1:
            return False
        value = self._value(right.named_children[0], run)
        run.names[text_of(name)] = value
        return value is not UNKNOWN

    def _for(self, node: Node, run: _Run, gates: tuple[str, ...]) -> bool:
        """`for i := range obj.Items`: an item is written by its index."""
        clause, body = next(nodes_of(node, "range_clause"), None), node.child_by_field_name("body")
        left = clause.child_by_field_name("left") if clause is not None else None
        if clause is None or body is None or left is None or len(left.named_children) != 1:
            return False
        if not isinstance(self._value(clause.child_by_field_name("right"), run), _Place):
            return False
        self._block(body, run, gates)
        return True

    def _if(self, node: Node, run: _Run, gates: tuple[str, ...]) -> bool:
        condition, then = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
        if condition is None or then is None or node.child_by_field_name("alternative") is not None:
            return False
        if node.child_by_field_name("initializer") is not None:
            return False
        gate = asked_gate(condition)
        name = self._constants.value(gate, run.file) if gate is not None else ""
        if isinstance(name, str) and name and not gates:
            self._block(then, run, (name,))
            return True
        place, is_set = self._tested(condition, run)
        if place is None:
            return False
        if is_set:
            self._block(then, run, gates)
            return True
        return self._filled(place, then, run, gates)

    def _filled(self, place: _Place, then: Node, run: _Run, gates: tuple[str, ...]) -> bool:
        """The block of `if place == nil` sets the place, and nothing else."""
        value: Any = UNKNOWN
        for statement in statements(then):
            if statement.type != "assignment_statement":
                if not self._declare(statement, run):
                    return False
                continue
            pairs = assigned(statement)
            if len(pairs) != 1 or text_of(statement.children[1]) != "=":
                return False
            target, source = pairs[0]
            if target.type == "unary_expression":  # *obj.Field = 1 after obj.Field = new(int32)
                target = target.named_children[0]
            if self._value(target, run) != place:
                return False
            if not text_of(source).startswith("new("):
                value = self._value(source, run)
        if value is UNKNOWN or isinstance(value, _Place):
            return False
        run.filled[place.path] = {"d": value, "g": list(gates)} if gates else {"d": value}
        return True

    def _touch(self, node: Node, run: _Run) -> None:
        """Places that a statement of no known shape names may be set by it."""
        for assignment in nodes_of(node, "assignment_statement", "call_expression"):
            for target in nodes_of(assignment, "selector_expression", "identifier"):
                if target.parent is not None and target.parent.type in _LONGER:
                    continue
                place = self._value(target, run)
                if isinstance(place, _Place) and place.path:
                    run.touched.add(place.path)

    # --- expressions -----------------------------------------------------------------------------------

    def _tested(self, condition: Node, run: _Run) -> tuple[_Place | None, bool]:
        """The place that a condition finds set (True) or unset."""
        left, right = condition.child_by_field_name("left"), condition.child_by_field_name("right")
        if condition.type != "binary_expression" or left is None or right is None:
            return None, False
        operator, other = text_of(condition.children[1]), text_of(right)
        if left.type == "call_expression" and text_of(left).startswith("len(") and other == "0":
            left = left.named_children[1].named_children[0]
        elif other not in _EMPTY:
            return None, False
        place = self._value(left, run)
        if not isinstance(place, _Place) or operator not in ("==", "!="):
            return None, False
        return place, operator == "!="

    def _value(self, node: Node | None, run: _Run) -> Any:
        """A place, a JSON value, or UNKNOWN."""
        if node is None:
            return UNKNOWN
        match node.type:
            case "identifier" if text_of(node) in run.names:
                return run.names[text_of(node)]
            case "selector_expression":
                owner = self._value(node.child_by_field_name("operand"), run)
                if isinstance(owner, _Place):
                    return owner.of(text_of(node.named_children[-1]))
            case "index_expression":
                owner = self._value(node.child_by_field_name("operand"), run)
                return owner.of(_ITEM) if isinstance(owner, _Place) else UNKNOWN
            case "unary_expression" if text_of(node).startswith("&"):
                return self._value(node.named_children[0], run)
            case "composite_literal":
                body = node.child_by_field_name("body")
                return {} if body is not None and not body.named_children else UNKNOWN
            case "call_expression" | "type_conversion_expression":
                inner = next(nodes_of(node, "identifier"), None)
                arguments = node.child_by_field_name("arguments") or node
                if inner is not None and arguments.named_children:
                    passed = arguments.named_children[-1]
                    if passed.type == "identifier" and text_of(passed) in run.names:
                        return UNKNOWN
        return self._constants.value(node, run.file)

    # --- types -----------------------------------------------------------------------------------------

    def _json_path(self, package: str, name: str, path: tuple[str, ...]) -> str:
        """`spec.ports[].protocol`; empty where a name is no field that JSON has."""
        declared = self._tree.package(package).types.get(name)
        written: list[str] = []
        for step in path:
            if step == _ITEM:
                if not written:
                    return ""
                written[-1] += _ITEM
                continue
            found = next(iter(self._fields(declared, step)), None)
            if found is None:
                return ""
            json_name, declared = found
            if json_name:
                written.append(json_name)
        return ".".join(written)

    def _fields(
        self, declared: TypeDeclaration | None, name: str
    ) -> Iterator[tuple[str, TypeDeclaration | None]]:
        """The JSON name and the type's declaration of a Go field, also of one of an embedded struct.

        An embedded struct whose fields are the object's own has no JSON name.
        """
        if declared is None or not declared.is_struct:
            return
        for one in declared.fields():
            json_name = one.json_name
            inner = self._tree.declared_type(_element(one.type), declared.file)
            if one.name == name and json_name != "-":
                yield json_name if one.embedded else json_name or one.name, inner
            elif one.embedded and not json_name:
                yield from self._fields(inner, name)


def _element(expression: str) -> str:
    """The named type of which a pointer, list or map is made."""
    while expression.startswith(("*", "[]", "map[")):
        expression = expression.removeprefix("*").removeprefix("[]")
        if expression.startswith("map["):
            expression = expression.partition("]")[2]
    return expression

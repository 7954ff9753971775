"""Go files as tree-sitter parses them: their imports and declarations, with the comments above these.

Nothing is type-checked and nothing of a tree is executed. A reader of a subject asks for the declarations
of a package (`source_tree.py`) and walks the syntax nodes below them (`go_values.py` evaluates literals).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import tree_sitter_go
from tree_sitter import Language, Node, Parser, Query, QueryCursor

_LANGUAGE = Language(tree_sitter_go.language())
# The grammar knows new(T) alone. Since Go 1.26 it takes any expression, which under another name is a call.
_NEW = re.compile(rb"\bnew\(")
_COMMENTS = Query(_LANGUAGE, "(comment) @comment")
_TAG = re.compile(r'(\w+):"((?:[^"\\]|\\.)*)"')


CIRCLE = "are made of themselves in a circle; fix it and import again"


class TreeError(ValueError):
    """A source tree that cannot be imported; the text is one line that says what to do."""


@dataclass(frozen=True, slots=True)
class StructField:
    """`type` is the expression as written, `[]*v1.Pod`; an embedded field has the name of its type."""

    name: str
    type: str
    tag: str
    embedded: bool
    doc: tuple[str, ...]

    @property
    def tags(self) -> dict[str, str]:
        """The parts of the tag by their keys."""
        return dict(_TAG.findall(self.tag))

    @property
    def json_name(self) -> str:
        """The name in the tag: empty if it has none, `-` if JSON does not have the field."""
        return self.tags.get("json", "").split(",")[0]


@dataclass(frozen=True, slots=True)
class TypeDeclaration:
    """`alias` is true of `type A = B`. `node` is what stands behind the name."""

    name: str
    doc: tuple[str, ...]
    alias: bool
    node: Node
    file: "GoFile"

    @property
    def is_struct(self) -> bool:
        return self.node.type == "struct_type"

    def text(self) -> str:
        """The declared type as written."""
        return text_of(self.node)

    def fields(self) -> Iterator[StructField]:
        """Yields a field per name, in the order of the source; nothing if this is no struct."""
        declarations = next(
            (node for node in self.node.children if node.type == "field_declaration_list"), None
        )
        comments: list[Node] = []
        for node in declarations.children if declarations is not None and self.is_struct else ():
            if node.type == "comment":
                comments.append(node)
            elif node.type == "field_declaration":
                yield from _fields(node, doc_above(node, comments, blocks=False))
                comments = []


@dataclass(frozen=True, slots=True)
class Value:
    """A constant or variable. `node` is its value, None if none is written (iota groups, bare variables)."""

    name: str
    type: str
    node: Node | None
    doc: tuple[str, ...]
    file: "GoFile"


@dataclass(frozen=True, slots=True)
class Function:
    """`receiver` is the type of a method's receiver as written, else empty."""

    name: str
    receiver: str
    node: Node

    @property
    def body(self) -> Node | None:
        return self.node.child_by_field_name("body")

    def parameters(self) -> list[tuple[str, str]]:
        """Pairs names and types."""
        found = []
        listed = self.node.child_by_field_name("parameters")
        for parameter in listed.named_children if listed is not None else ():
            kind = parameter.child_by_field_name("type")
            names = parameter.children_by_field_name("name")
            found += [(text_of(name), text_of(kind) if kind else "") for name in names]
        return found


@dataclass(frozen=True, slots=True)
class MethodCall:
    """`owner.method(arguments)`; comments are no arguments."""

    owner: Node
    method: str
    arguments: tuple[Node, ...]


class GoFile:
    """One parsed file of a package. Raises TreeError, with file and line, if it is no Go.

    `root` is the syntax node of the whole file.
    """

    def __init__(self, path: Path, package: str) -> None:
        self.path = path
        self.package = package
        source = path.read_bytes()
        try:
            source.decode()
        except UnicodeDecodeError:
            raise TreeError(f"{path}: this is no UTF-8; fix it and import again") from None
        self.root = Parser(_LANGUAGE).parse(source).root_node
        if self.root.has_error:
            self.root = Parser(_LANGUAGE).parse(_NEW.sub(b"neW(", source)).root_node
        if self.root.has_error:
            raise TreeError(f"{path}:{_error_line(self.root)}: this is no Go; fix it and import again")

    @property
    def is_generated(self) -> bool:
        """A tool made it, as a comment before the package clause says in Go's fixed words."""
        lines = self.package_comment()
        return any(line.startswith("Code generated ") and line.endswith(" DO NOT EDIT.") for line in lines)

    @cached_property
    def imports(self) -> dict[str, str]:
        """Paths of imported packages by the names that the file uses for them."""
        found = {}
        for declaration in self._children("import_declaration"):
            for spec in nodes_of(declaration, "import_spec"):
                path = spec.child_by_field_name("path")
                name = spec.child_by_field_name("name")
                imported = text_of(path)[1:-1] if path is not None else ""
                found[text_of(name) if name is not None else _package_name(imported)] = imported
        return found

    def types(self) -> Iterator[TypeDeclaration]:
        for declaration in self._children("type_declaration"):
            for spec, doc in _specs(declaration, ("type_spec", "type_alias")):
                name, node = spec.child_by_field_name("name"), spec.child_by_field_name("type")
                if name is not None and node is not None:
                    yield TypeDeclaration(text_of(name), doc, spec.type == "type_alias", node, self)

    def constants(self) -> Iterator[Value]:
        yield from self._values("const_declaration", "const_spec")

    def variables(self) -> Iterator[Value]:
        """Those of the package, not of functions."""
        yield from self._values("var_declaration", "var_spec")

    def functions(self) -> Iterator[Function]:
        for node in self.root.children:
            if node.type in ("function_declaration", "method_declaration"):
                name = node.child_by_field_name("name")
                yield Function(text_of(name) if name is not None else "", _receiver(node), node)

    def named(self, expression: str) -> tuple[str, str]:
        """Import path and name of `v1.Pod` or `*Pod`; the path is empty if the file does not import it."""
        qualifier, _, name = expression.lstrip("*").rpartition(".")
        return self.imports.get(qualifier, "") if qualifier else self.package, name

    def mentions(self, word: str) -> bool:
        """Cheaper than to walk the syntax of a file that has nothing of it."""
        return word.encode() in (self.root.text or b"")

    def code(self) -> bytes:
        """The source without comments, empty lines and spaces at line ends; `//go:` lines are code."""
        source, kept, start = self.root.text or b"", bytearray(), 0
        comments = QueryCursor(_COMMENTS).captures(self.root).get("comment", [])
        for comment in sorted(comments, key=lambda node: node.start_byte):
            if not source.startswith(b"//go:", comment.start_byte - self.root.start_byte):
                kept += source[start : comment.start_byte - self.root.start_byte]
                start = comment.end_byte - self.root.start_byte
        kept += source[start:]
        return b"\n".join(line.rstrip() for line in kept.split(b"\n") if line.strip())

    def nodes(self, *kinds: str) -> Iterator[Node]:
        """All syntax nodes of these types, in the order of the source."""
        yield from nodes_of(self.root, *kinds)

    def package_comment(self) -> tuple[str, ...]:
        """All comments that stand before the package clause, as lines."""
        comments = []
        for node in self.root.children:
            if node.type == "package_clause":
                break
            if node.type == "comment":
                comments.append(node)
        return tuple(line for node in comments for line in _comment_lines(node))

    def _children(self, kind: str) -> Iterator[Node]:
        return (node for node in self.root.children if node.type == kind)

    def _values(self, declaration_type: str, spec_type: str) -> Iterator[Value]:
        for declaration in self._children(declaration_type):
            for spec, doc in _specs(declaration, (spec_type,)):
                kind, value = spec.child_by_field_name("type"), spec.child_by_field_name("value")
                values = value.named_children if value is not None else []
                for place, name in enumerate(spec.children_by_field_name("name")):
                    node = values[place] if place < len(values) else None
                    yield Value(text_of(name), text_of(kind) if kind is not None else "", node, doc, self)


def text_of(node: Node) -> str:
    """The source of a node."""
    return node.text.decode() if node.text is not None else ""


def nodes_of(node: Node, *kinds: str) -> Iterator[Node]:
    """Yields the nodes of these types below a node and the node itself, in the order of the source."""
    todo = [node]
    while todo:
        here = todo.pop()
        if here.type in kinds:
            yield here
        todo += reversed(here.children)


def method_calls(node: Node, *methods: str) -> Iterator[MethodCall]:
    """Yields the calls of these methods, or functions of other packages, at and below a node."""
    for call in nodes_of(node, "call_expression"):
        function, arguments = call.child_by_field_name("function"), call.child_by_field_name("arguments")
        if function is None or arguments is None or function.type != "selector_expression":
            continue
        owner, name = function.child_by_field_name("operand"), function.child_by_field_name("field")
        if owner is not None and name is not None and text_of(name) in methods:
            listed = tuple(child for child in arguments.named_children if child.type != "comment")
            yield MethodCall(owner, text_of(name), listed)


def asked_gate(condition: Node) -> Node | None:
    """The gate that `utilfeature.DefaultFeatureGate.Enabled(…)` asks for; None of another condition."""
    function, arguments = (condition.child_by_field_name(name) for name in ("function", "arguments"))
    if function is None or arguments is None or not text_of(function).endswith("FeatureGate.Enabled"):
        return None
    return next(iter(arguments.named_children), None)


def statements(block: Node) -> list[Node]:
    """The statements of a block, without comments."""
    listed = next((node for node in block.children if node.type == "statement_list"), None)
    return [node for node in listed.named_children if node.type != "comment"] if listed is not None else []


def assigned(statement: Node) -> list[tuple[Node, Node]]:
    """Pairs the targets of an assignment or a short declaration with their values.

    There are none if one call gives several values.
    """
    left, right = statement.child_by_field_name("left"), statement.child_by_field_name("right")
    if left is None or right is None or len(left.named_children) != len(right.named_children):
        return []
    return list(zip(left.named_children, right.named_children, strict=True))


def doc_above(node: Node, comments: list[Node], *, blocks: bool = True) -> tuple[str, ...]:
    """The lines of the comments that stand right above a node, without the marks of comments.

    `comments` are those since the last declaration. A comment at the end of a line of code is none of it,
    nor is one that an empty line separates; with `blocks`, a block of markers above the doc comment counts
    (one empty line between them and the doc): gengo reads those of types, not of fields.
    """
    row, kept = node.start_point.row, list[Node]()
    for comment in reversed(comments):
        if not _alone(comment):
            break
        gap = row - comment.end_point.row - 1
        apart = 1 if blocks and (not kept or _is_marker(comment)) else 0
        if gap > apart or (gap and not _is_marker(comment)):
            break
        kept.append(comment)
        row = comment.start_point.row
    return tuple(line for comment in reversed(kept) for line in _comment_lines(comment))


def _is_marker(comment: Node) -> bool:
    return text_of(comment).lstrip("/ ").startswith("+")


def _alone(comment: Node) -> bool:
    before = comment.prev_sibling
    return before is None or before.end_point.row < comment.start_point.row or before.type == "\n"


def _comment_lines(comment: Node) -> list[str]:
    text = text_of(comment)
    if text.startswith("//"):
        return [text[2:].removeprefix(" ").rstrip()]
    return [line.strip() for line in text[2:-2].strip("\n").split("\n")]


def _specs(declaration: Node, kinds: tuple[str, ...]) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """Pairs the specs of `type (…)`, `const (…)` with their comments; a single one has the declaration's."""
    own = _comments_before(declaration)
    listed = [node for node in declaration.children if node.type.endswith("_spec_list")]
    container = listed[0] if listed else declaration
    grouped = bool(listed) or any(node.type == "(" for node in declaration.children)
    comments: list[Node] = []
    for node in container.children:
        if node.type == "comment":
            comments.append(node)
        elif node.type in kinds:
            yield node, doc_above(node, comments) if grouped else doc_above(declaration, own)
            comments = []


def _comments_before(node: Node) -> list[Node]:
    comments = []
    before = node.prev_sibling
    while before is not None and before.type in ("comment", "\n"):
        if before.type == "comment":
            comments.append(before)
        before = before.prev_sibling
    return comments[::-1]


def _fields(node: Node, doc: tuple[str, ...]) -> Iterator[StructField]:
    kind, tag = node.child_by_field_name("type"), node.child_by_field_name("tag")
    names = node.children_by_field_name("name")
    written = text_of(kind) if kind is not None else ""
    quoted = text_of(tag)[1:-1] if tag is not None else ""
    if not names:
        pointer = "*" if any(child.type == "*" for child in node.children) else ""
        yield StructField(written.rpartition(".")[2], pointer + written, quoted, True, doc)
    for name in names:
        yield StructField(text_of(name), written, quoted, False, doc)


def _receiver(node: Node) -> str:
    listed = node.child_by_field_name("receiver")
    for parameter in listed.named_children if listed is not None else ():
        kind = parameter.child_by_field_name("type")
        if kind is not None:
            return text_of(kind)
    return ""


def _package_name(path: str) -> str:
    """The last part of an import path that is no major version of a module."""
    parts = path.split("/")
    versioned = (
        len(parts) > 1 and parts[-1][:1] == "v" and parts[-1][1:].isdigit() and "k8s.io" not in parts[0]
    )
    return parts[-2] if versioned else parts[-1]


def _error_line(root: Node) -> int:
    for node in nodes_of(root, "ERROR"):
        return node.start_point.row + 1
    todo = [root]
    while todo:
        here = todo.pop()
        if here.is_missing:
            return here.start_point.row + 1
        todo += [child for child in here.children if child.has_error or child.is_missing]
    return root.start_point.row + 1

"""The columns in which a tree's API server prints each kind, with their descriptions.

pkg/printers/internalversion/printers.go gives lists of column definitions to handlers, whose first parameter
names the kind; the aggregator has those of APIServices itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tree_sitter import Node

from kubeskew.releases.tree.discovery import listed_resources
from kubeskew.releases.tree.go_syntax import Function, GoFile, assigned, method_calls, statements, text_of
from kubeskew.releases.tree.go_values import Call, Literal, Reference, Scope, declared, unreadable
from kubeskew.releases.tree.registration import group_name, registered_kinds
from kubeskew.releases.tree.source_tree import INTERNAL_APIS, META, SourceTree

_PRINTERS = "k8s.io/kubernetes/pkg/printers/internalversion"
_AGGREGATOR = "k8s.io/kube-aggregator/pkg/registry/apiservice/etcd"
_API_SERVICE = "apiregistration.k8s.io/APIService"
_DEFINITIONS = "TableColumnDefinition"


@dataclass(frozen=True, slots=True)
class _Column:
    """`description` is what the source says of it, in the scope that it is written in."""

    name: str
    type: str
    format: str
    priority: int
    description: Node | None
    scope: Scope


def printer_columns(tree: SourceTree) -> dict[str, list[list[Any]]]:
    """`{group/Kind: [[name, type, format, priority], …]}`."""
    return {
        kind: [[column.name, column.type, column.format, column.priority] for column in columns]
        for kind, columns in sorted(_columns(tree).items())
    }


def column_descriptions(tree: SourceTree) -> dict[str, dict[str, str]]:
    """The prose of the tree by kind and name of a column, as its own documentation of fields has it."""
    return {
        kind: {column.name: _description(tree, column) for column in columns}
        for kind, columns in sorted(_columns(tree).items())
    }


def _columns(tree: SourceTree) -> dict[str, list[_Column]]:
    file = tree.package(_PRINTERS).needed("printers.go")
    handlers = _Handlers(tree, file)
    for function in file.functions():
        if function.name == "AddHandlers" and function.body is not None:
            handlers.follow(function.body)
    found = handlers.columns | _of_api_services(tree)
    return found | {kind: found[other] for kind, other in _same_kinds(tree) if other in found}


class _Handlers:
    """Follows the statements of a function: lists of columns by name, and the handlers that get them."""

    def __init__(self, tree: SourceTree, file: GoFile) -> None:
        self.columns: dict[str, list[_Column]] = {}
        self._tree = tree
        self._file = file
        self._functions = {function.name: function for function in file.functions()}
        self._lists: dict[str, list[_Column]] = {}

    def follow(self, body: Node) -> None:
        for statement in statements(body):
            self._statement(statement)

    def _statement(self, node: Node) -> None:
        if node.type in ("if_statement", "for_statement", "expression_switch_statement"):
            if _DEFINITIONS in text_of(node) or "TableHandler" in text_of(node):
                raise unreadable(self._file, node, "columns that depend on a condition cannot be imported")
            return
        if node.type in ("short_var_declaration", "assignment_statement"):
            for target, value in assigned(node):
                if _DEFINITIONS in text_of(value):
                    self._lists[text_of(target)] = self._list(value)
        for call in method_calls(node, "TableHandler"):
            definitions, handler = call.arguments
            kind = self._kind(handler)
            if kind is not None:
                self.columns[kind] = self._list(definitions)

    def _list(self, node: Node) -> list[_Column]:
        """The columns of a name, a literal, or `append(list, columns…)`."""
        if node.type == "identifier" and text_of(node) in self._lists:
            return self._lists[text_of(node)]
        value = Scope(self._tree, self._file).value(node)
        if isinstance(value, Literal):
            return list(_definitions(value))
        if isinstance(value, Call) and text_of(node).startswith("append("):
            first, *others = value.arguments
            return [*self._list(first), *(column for other in others for column in self._appended(other))]
        raise unreadable(self._file, node, "these are no columns that can be read")

    def _appended(self, node: Node) -> list[_Column]:
        if node.type == "variadic_argument":
            return self._list(node.named_children[0])
        return [_definition(Scope(self._tree, self._file).literal(node))]

    def _kind(self, handler: Node) -> str | None:
        """`group/Kind` of what a handler prints; None of lists and of what no API group has."""
        function = self._functions.get(text_of(handler))
        if function is None:
            raise unreadable(self._file, handler, "no function of this name prints a kind")
        return _printed(self._tree, self._file, function)


def _same_kinds(tree: SourceTree) -> Iterator[tuple[str, str]]:
    """Listed kinds that are another group's, as `&core.Event{}` among those of events.k8s.io."""
    listed = {f"{group}/{kind}" for group, _, kind in listed_resources(tree)}
    for path in tree.packages_below(INTERNAL_APIS):
        file = tree.package(path).file("register.go")
        for kind in registered_kinds(file) if file is not None else ():
            if file is not None and "." in kind:
                package, name = file.named(kind)
                own, other = group_name(tree, path), group_name(tree, package)
                if other is not None and f"{own}/{name}" in listed:
                    yield f"{own}/{name}", f"{other}/{name}"


def _printed(tree: SourceTree, file: GoFile, function: Function) -> str | None:
    """The kind by the type of the first parameter, `*apps.Deployment`."""
    parameters = function.parameters()
    path, kind = file.named(parameters[0][1]) if parameters else ("", "")
    if path == META:
        return f"meta/{kind}"
    if not path.startswith(f"{INTERNAL_APIS}/"):
        return None
    declaration = tree.package(path).types.get(kind)
    if declaration is not None and any(field.name == "ListMeta" for field in declaration.fields()):
        return None
    group = group_name(tree, path)
    if group is None:
        raise unreadable(file, function.node, "the group of what this prints cannot be read")
    return f"{group}/{kind}"


def _definitions(listed: Literal) -> Iterator[_Column]:
    for element in listed.elements():
        yield _definition(listed.scope.literal(element))


def _definition(literal: Literal) -> _Column:
    fields, scope = literal.fields(), literal.scope
    name, kind, form = (
        scope.text(fields[field]) if field in fields else "" for field in ("Name", "Type", "Format")
    )
    return _Column(
        name,
        kind,
        form,
        scope.number(fields["Priority"]) if "Priority" in fields else 0,
        fields.get("Description"),
        scope,
    )


def _of_api_services(tree: SourceTree) -> dict[str, list[_Column]]:
    for file in tree.package(_AGGREGATOR).files():
        for literal in file.nodes("composite_literal"):
            kind = literal.child_by_field_name("type")
            if kind is not None and text_of(kind).endswith(f"[]metav1.{_DEFINITIONS}"):
                return {_API_SERVICE: list(_definitions(Scope(tree, file).literal(literal)))}
    return {}


def _description(tree: SourceTree, column: _Column) -> str:
    """A literal, or `v1.PodStatus{}.SwaggerDoc()["podIP"]`: the documentation of a field."""
    node, scope = column.description, column.scope
    if node is None:
        return ""
    if node.type != "index_expression":
        return scope.text(node)
    operand, index = node.child_by_field_name("operand"), node.child_by_field_name("index")
    if operand is not None and operand.type == "identifier":
        named = tree.package(scope.file.package).values.get(text_of(operand))
        operand, scope = (named[0], Scope(tree, named[1])) if named is not None else (None, scope)
    method = operand.child_by_field_name("function") if operand is not None else None
    owner = method.child_by_field_name("operand") if method is not None else None
    documented = _documented(tree, scope, owner) if owner is not None else None
    if documented is None or index is None:
        raise unreadable(scope.file, node, "this description cannot be read")
    documentation = declared(tree, Reference(documented.package, f"map_{documented.name}"))
    if documentation is None:
        return ""  # the type has no generated documentation
    texts_node, declaring = documentation
    table = Scope(tree, declaring).literal(texts_node)
    wanted = scope.text(index)
    texts = {table.scope.text(key): value for key, value in table.entries if key is not None}
    return table.scope.text(texts[wanted]) if wanted in texts else ""


def _documented(tree: SourceTree, scope: Scope, owner: Node) -> Reference | None:
    """The type of `v1.Event{}`, or of its field in `v1.Event{}.InvolvedObject`."""
    if owner.type == "composite_literal":
        kind = owner.child_by_field_name("type")
        return Reference(*scope.file.named(text_of(kind))) if kind is not None else None
    operand, name_node = owner.child_by_field_name("operand"), owner.child_by_field_name("field")
    outer = _documented(tree, scope, operand) if operand is not None and name_node is not None else None
    declaration = tree.package(outer.package).types.get(outer.name) if outer is not None else None
    if declaration is None or name_node is None:
        return None
    for field in declaration.fields():
        if field.name == text_of(name_node):
            return Reference(*declaration.file.named(field.type))
    return None

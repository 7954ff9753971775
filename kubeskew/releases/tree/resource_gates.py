"""Resources and subresources that the API server of a tree serves only while a gate is on.

The storage providers, pkg/registry/GROUP/rest, put a storage per resource into a map. Where they do so below
a condition `….Enabled(features.Gate)`, the resource is served with that gate alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tree_sitter import Node

from kubeskew.releases.tree.go_syntax import (
    GoFile,
    TreeError,
    asked_gate,
    assigned,
    method_calls,
    nodes_of,
    text_of,
)
from kubeskew.releases.tree.go_values import Evaluated, Literal, Scope, unreadable
from kubeskew.releases.tree.source_tree import SourceTree

_REGISTRY = "k8s.io/kubernetes/pkg/registry"
_LEFT_OUT = "testapigroup"  # no server has it


@dataclass(frozen=True, slots=True)
class _Place:
    """A statement's surroundings: names of its function, gates that are on there, the served version."""

    scope: Scope
    gates: tuple[str, ...] = ()
    served: tuple[str, str] = ("", "")  # group, version


@dataclass(frozen=True, slots=True)
class _Storage:
    group: str
    version: str
    resource: str
    gate: str


def resource_gates(tree: SourceTree) -> dict[str, str]:
    """Gates by `plural.group`, and by `plural/subresource` where a subresource has one that its parent lacks.

    A gate that not all versions need is under `plural.group/version`.
    """
    providers = [path for path in tree.packages_below(_REGISTRY) if path.endswith("/rest")]
    if not providers:
        raise TreeError(f"{tree.root / 'pkg/registry'} has no storage providers; name the root of a clone")
    storages = [
        storage
        for path in providers
        if _LEFT_OUT not in path
        for file in tree.package(path).files()
        for storage in _storages(tree, file)
    ]
    parents = {(row.group, row.version, row.resource): row.gate for row in storages}
    found: dict[str, str] = {}
    for row in storages:
        parent, _, subresource = row.resource.partition("/")
        if not row.gate or (subresource and parents.get((row.group, row.version, parent)) == row.gate):
            continue
        name = row.resource if subresource else f"{row.resource}.{row.group}".removesuffix(".")
        everywhere = {
            other.gate for other in storages if (other.group, other.resource) == (row.group, row.resource)
        }
        found[name if everywhere == {row.gate} else f"{name}/{row.version}"] = row.gate
    return dict(sorted(found.items()))


def _storages(tree: SourceTree, file: GoFile) -> Iterator[_Storage]:
    group = _group_name(tree, file)
    for function in file.functions():
        if function.body is not None:
            yield from _below(function.body, _Place(Scope(tree, file), served=(group, "")))


def _group_name(tree: SourceTree, file: GoFile) -> str:
    """The group that the provider of a file says it serves; empty, as the core group, if it does not."""
    for function in file.functions():
        if function.name == "GroupName" and function.body is not None:
            for statement in nodes_of(function.body, "return_statement"):
                for value in statement.named_children:
                    return Scope(tree, file).text(value)
    return ""


def _below(node: Node, place: _Place) -> Iterator[_Storage]:
    """Storages that the statements below a node put into a map of the name `storage`."""
    if node.type == "if_statement":
        yield from _if(node, place)
        return
    if node.type == "assignment_statement":
        left = node.child_by_field_name("left")
        for target in left.named_children if left is not None else ():
            if target.type == "index_expression" and _is_storage(target):
                yield _storage(target, place)
        return
    if node.type == "func_literal":
        return
    for child in node.named_children:
        yield from _below(child, place)


def _if(node: Node, place: _Place) -> Iterator[_Storage]:
    initializer, condition = node.child_by_field_name("initializer"), node.child_by_field_name("condition")
    inner = _with_names(initializer, place) if initializer is not None else place
    on, off = _gates(condition, inner) if condition is not None else ((), ())
    if condition is not None:
        inner = replace(inner, served=_served(condition, inner))
    consequence, alternative = (
        node.child_by_field_name("consequence"),
        node.child_by_field_name("alternative"),
    )
    if consequence is not None:
        yield from _below(consequence, replace(inner, gates=inner.gates + on))
    if alternative is not None:
        yield from _below(alternative, replace(inner, gates=inner.gates + off))


def _with_names(initializer: Node, place: _Place) -> _Place:
    """`resource := "pods"` gives a name its value."""
    names: dict[str, Evaluated] = {
        text_of(name): place.scope.text(value)
        for name, value in assigned(initializer)
        if value.type == "interpreted_string_literal"
    }
    return replace(place, scope=replace(place.scope, locals={**place.scope.locals, **names}))


def _gates(condition: Node, place: _Place) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The gates that are on if a condition holds, and those that are on if it does not."""
    if condition.type == "parenthesized_expression":
        return _gates(condition.named_children[0], place)
    if condition.type == "unary_expression" and text_of(condition.children[0]) == "!":
        on, off = _gates(condition.named_children[0], place)
        return off, on
    left, right = condition.child_by_field_name("left"), condition.child_by_field_name("right")
    if condition.type == "binary_expression" and left is not None and right is not None:
        one, other = _gates(left, place), _gates(right, place)
        match text_of(condition.children[1]):
            case "&&":
                return one[0] + other[0], ()
            case "||":
                return (), one[1] + other[1]
    gate = asked_gate(condition)
    return ((place.scope.text(gate),), ()) if gate is not None else ((), ())


def _served(condition: Node, place: _Place) -> tuple[str, str]:
    """Group and version of `….ResourceEnabled(v1.SchemeGroupVersion.WithResource(…))`, if it has them."""
    for call in method_calls(condition, "WithResource"):
        version = place.scope.value(call.owner)
        if isinstance(version, Literal):
            return version.text("Group"), version.text("Version")
    return place.served


def _is_storage(target: Node) -> bool:
    operand = target.child_by_field_name("operand")
    return operand is not None and text_of(operand).lower().startswith("storage")


def _storage(target: Node, place: _Place) -> _Storage:
    index = target.child_by_field_name("index")
    gates = sorted(set(place.gates))
    if index is None or len(gates) > 1:
        raise unreadable(place.scope.file, target, "a resource that needs several gates cannot be imported")
    group, version = place.served
    return _Storage(group, version, place.scope.text(index), gates[0] if gates else "")

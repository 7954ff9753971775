"""The static type checker: types of all nodes, the overloads of all calls, and what does not fit.

Source: github.com/google/cel-go/checker/checker.go, as of Kubernetes 1.36.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kubeskew.apimachinery.cel import types
from kubeskew.apimachinery.cel.checker.unification import (
    Bindings,
    all_assignable,
    most_general,
    settled,
    substitute,
)
from kubeskew.apimachinery.cel.errors import Issue
from kubeskew.apimachinery.cel.names import keyword_field
from kubeskew.apimachinery.cel.overloads import Functions, Overload
from kubeskew.apimachinery.cel.parser.nodes import (
    Call,
    Comprehension,
    Entry,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    ObjectLiteral,
    Select,
)
from kubeskew.apimachinery.cel.types import Type
from kubeskew.apimachinery.cel.values import type_name

_LOGIC = frozenset({"_&&_", "_||_"})


@dataclass(slots=True)
class Checked:
    """Holds the types and references found for an expression's nodes.

    `references` says what a name in the tree is: a variable's (qualified) name, or the type it stands for;
    `functions` are calls whose name is qualified (`sets.contains`): they have no target.
    """

    root: Node
    types: dict[Node, Type] = field(default_factory=dict)
    overloads: dict[Call, tuple[Overload, ...]] = field(default_factory=dict)
    names: dict[Node, str] = field(default_factory=dict)
    values: dict[Node, Type] = field(default_factory=dict)
    functions: dict[Call, str] = field(default_factory=dict)

    @property
    def result(self) -> Type:
        return self.types[self.root]


class Checker:
    """Checks one expression; `issues` holds the errors."""

    def __init__(
        self,
        variables: Mapping[str, Type],
        functions: Functions,
        named: Callable[[str], Type | None],
        *,
        keywords: bool,
    ) -> None:
        self._scopes: list[dict[str, Type]] = [dict(variables)]
        self._functions = functions
        self._named = named
        self._keywords = keywords  # may select fields by their own names, without escaping
        self._bindings: Bindings = {}
        self._fresh = 0
        self.issues: list[Issue] = []

    def check(self, root: Node) -> Checked:
        self._checked = Checked(root)
        self._check(root)
        kinds = self._checked.types
        for node, kind in kinds.items():
            kinds[node] = settled(self._bindings, kind)
        return self._checked

    def _fail(self, node: Node | Entry, message: str) -> None:
        self.issues.append(Issue(node.offset, message))

    def _check(self, node: Node) -> Type:
        kind = self._kind(node)
        self._checked.types[node] = kind
        return kind

    def _kind(self, node: Node) -> Type:
        match node:
            case Literal():
                return types.NULL if node.value is None else types.NAMED[type_name(node.value)]
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case ObjectLiteral():
                return self._object(node)
            case Comprehension():
                return self._comprehension(node)

    def _fresh_parameter(self) -> Type:
        self._fresh += 1
        return types.parameter(f"_var{self._fresh - 1}")

    def _fits(self, given: Type, wanted: Type) -> bool:
        return self._all_fit((given,), (wanted,))

    def _all_fit(self, given: tuple[Type, ...], wanted: tuple[Type, ...]) -> bool:
        """Returns whether all types fit, as `all_assignable` does; keeps the bindings only if they do."""
        attempt = dict(self._bindings)
        if not all_assignable(attempt, given, wanted):
            return False
        self._bindings = attempt
        return True

    def _lookup(self, name: str) -> Type | None:
        name = name.removeprefix(".")
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _reference(self, node: Node, name: str) -> Type | None:
        """Returns the type of what `name` stands for, noted for `node`; None if it stands for nothing."""
        variable = self._lookup(name)
        if variable is not None:
            self._checked.names[node] = name.removeprefix(".")
            return variable
        named = self._named(name.removeprefix("."))
        if named is None:
            return None
        self._checked.values[node] = named
        return named if named.kind == "type" and not named.parameters else types.type_of(named)

    def _ident(self, node: Ident) -> Type:
        kind = self._reference(node, node.name)
        if kind is None:
            self._fail(node, f"undeclared reference to '{node.name}' (in container '')")
            return types.ERROR
        return kind

    def _select(self, node: Select) -> Type:
        name = None if node.test else qualified(node)
        if name is not None and not self._is_local(name):
            kind = self._reference(node, name)
            if kind is not None:
                return kind
        kind = self._field(node, node.operand, node.field, optional=False)
        return types.BOOL if node.test else substitute(self._bindings, kind)

    def _is_local(self, name: str) -> bool:
        """Returns whether the first part of the name is a comprehension's variable."""
        return any(name.split(".", 1)[0] in scope for scope in self._scopes[1:])

    def _field(self, node: Node, operand: Node, name: str, *, optional: bool) -> Type:
        outer = substitute(self._bindings, self._check(operand))
        target, was_optional = types.unwrap_optional(outer)
        result = types.ERROR
        if target.kind == "map":
            result = target.parameters[1]
        elif target.kind == "struct":
            found = self._struct_field(target, name)
            if found is None:
                self._fail(node, f"undefined field '{name}'")
            result = found or types.ERROR
        elif target.kind == "param":
            self._fits(types.DYN, target)
            result = types.DYN
        else:
            if target.kind not in types.UNKNOWN:
                self._fail(node, f"type '{target.checked}' does not support field selection")
            result = types.DYN
        return types.optional_of(result) if was_optional or optional else result

    def _struct_field(self, target: Type, name: str) -> Type | None:
        fields = target.fields or (self._named(target.name) or target).fields
        return fields.get(name) or (fields.get(keyword_field(name)) if self._keywords else None)

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            operand, field_name = node.arguments
            self._check(field_name)
            name = field_name.value if isinstance(field_name, Literal) else ""
            return substitute(self._bindings, self._field(node, operand, name, optional=True))
        arguments = tuple(self._check(argument) for argument in node.arguments)
        if node.target is None:
            name = node.function.removeprefix(".")
            if name not in self._functions:
                return self._undeclared(node)
            return self._resolve(node, name, arguments, None)
        prefix = qualified(node.target)
        if prefix is not None and f"{prefix}.{node.function}".removeprefix(".") in self._functions:
            name = f"{prefix}.{node.function}".removeprefix(".")
            self._checked.functions[node] = name
            return self._resolve(node, name, arguments, None)
        target = self._check(node.target)
        if node.function not in self._functions:
            return self._undeclared(node)
        return self._resolve(node, node.function, arguments, target)

    def _undeclared(self, node: Call) -> Type:
        self._fail(node, f"undeclared reference to '{node.function}' (in container '')")
        return types.ERROR

    def _resolve(self, node: Call, name: str, arguments: tuple[Type, ...], target: Type | None) -> Type:
        given = arguments if target is None else (target, *arguments)
        if name in _LOGIC:
            return self._logic(node, name, given)
        result: Type | None = None
        matching: list[Overload] = []
        for overload in self._functions.of(name):
            if overload.method != (target is not None):
                continue
            free_types = sorted(overload.generic, key=str)  # type: ignore[set-order]  # no two have one name
            fresh: Bindings = {free: self._fresh_parameter() for free in free_types}
            wanted = tuple(substitute(fresh, kind) for kind in overload.parameters)
            if not self._all_fit(given, wanted):
                continue
            matching.append(overload)
            found = substitute(self._bindings, substitute(fresh, overload.result))
            if result is None:
                result = found
            elif not types.is_dyn(result) and found != result:
                result = types.DYN
        if result is None:
            shown = [settled(self._bindings, kind).checked for kind in given]
            prefix = f"{shown.pop(0)}." if target is not None else ""
            signature = f"{prefix}({', '.join(shown)})"
            self._fail(node, f"found no matching overload for '{name}' applied to '{signature}'")
            return types.ERROR
        self._checked.overloads[node] = tuple(matching)
        return result

    def _logic(self, node: Call, name: str, given: tuple[Type, ...]) -> Type:
        wrong = False
        for argument, kind in zip(node.arguments, given, strict=True):
            if not self._fits(kind, types.BOOL):
                self._fail(argument, f"expected type 'bool' but found '{kind.checked}'")
                wrong = True
        self._checked.overloads[node] = self._functions.of(name)
        return types.ERROR if wrong else types.BOOL

    def _element(self, node: Node, optional: bool) -> Type:
        kind = self._check(node)
        if not optional:
            return kind
        inner, was_optional = types.unwrap_optional(kind)
        if not was_optional and not types.is_dyn(kind):
            wanted = types.optional_of(kind).checked
            self._fail(node, f"expected type '{wanted}' but found '{kind.checked}'")
        return inner

    def _join(self, previous: Type | None, current: Type) -> Type:
        """Returns the type of elements that have both types.

        A validator reports later that they must not be mixed.
        """
        if previous is None:
            return current
        return most_general(previous, current) if self._fits(previous, current) else types.DYN

    def _list(self, node: ListLiteral) -> Type:
        joined: Type | None = None
        for place, item in enumerate(node.items):
            joined = self._join(joined, self._element(item, place in node.optional))
        return types.list_of(joined or self._fresh_parameter())

    def _map(self, node: MapLiteral) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for entry in node.entries:
            keys = self._join(keys, self._check(entry.key))
            values = self._join(values, self._element(entry.value, entry.optional))
        return types.map_of(keys or self._fresh_parameter(), values or self._fresh_parameter())

    def _object(self, node: ObjectLiteral) -> Type:
        name = node.name.removeprefix(".")
        result = self._named(name)
        if result is None:
            variable = self._lookup(name)
            message = (
                f"'{variable.name}' is not a type" if variable else f"undeclared reference to '{node.name}'"
            )
            self._fail(node, message if variable else f"{message} (in container '')")
            return types.ERROR
        if result.kind != "struct":
            self._fail(node, f"'{result.name}' is not a message type")
            result = types.ERROR
        for entry in node.entries:
            value = self._element(entry.value, entry.optional)
            wanted = types.ERROR if result is types.ERROR else self._struct_field(result, entry.key)
            if wanted is None:
                self._fail(entry, f"undefined field '{entry.key}'")
            elif not self._fits(wanted, value):
                text = f"expected type of field '{entry.key}' is '{wanted.checked}'"
                self._fail(entry, f"{text} but provided type is '{value.checked}'")
        return result

    def _comprehension(self, node: Comprehension) -> Type:
        container = substitute(self._bindings, self._check(node.range))
        start = self._check(node.start)
        self._scopes.append({node.accumulator: start})
        self._scopes.append(self._loop_variables(node, container))
        self._expect(node.condition, types.BOOL)
        self._expect(node.step, start)
        self._scopes.pop()
        result = self._check(node.result)
        self._scopes.pop()
        return substitute(self._bindings, result)

    def _loop_variables(self, node: Comprehension, container: Type) -> dict[str, Type]:
        pair = len(node.variables) == 2
        kinds: tuple[Type, ...]
        if container.kind == "list":
            kinds = (types.INT, container.parameters[0]) if pair else (container.parameters[0],)
        elif container.kind == "map":
            kinds = container.parameters if pair else (container.parameters[0],)
        elif container.kind in ("dyn", "error", "param"):
            self._fits(types.DYN, container)
            kinds = (types.DYN, types.DYN) if pair else (types.DYN,)
        else:
            text = f"expression of type '{container.checked}' cannot be range of a comprehension"
            self._fail(node.range, f"{text} (must be list, map, or dynamic)")
            kinds = (types.ERROR, types.ERROR) if pair else (types.ERROR,)
        return dict(zip(node.variables, kinds, strict=True))

    def _expect(self, node: Node, wanted: Type) -> None:
        found = self._check(node)
        if not self._fits(wanted, found):
            self._fail(node, f"expected type '{wanted.checked}' but found '{found.checked}'")


def qualified(node: Node) -> str | None:
    """Returns `a.b.c` as a name if the node is only identifiers and selections, else None."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.test:
        prefix = qualified(node.operand)
        return None if prefix is None else f"{prefix}.{node.field}"
    return None

"""The static type checker of CEL: types of all nodes, the overloads of all calls, and errors.

A type is assignable to another if they can be unified, which binds type parameters on the way. Validators
check beyond types: literals that cannot be read, lists and maps of mixed types, formats that do not fit.

Sources: github.com/google/cel-go/checker (types.go, checker.go), cel/validator.go and ext/formatting.go, as
of Kubernetes 1.36.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.cel import types
from kubeskew.apimachinery.cel.declarations import keyword_field
from kubeskew.apimachinery.cel.errors import EvaluationError, Issue
from kubeskew.apimachinery.cel.library import standard, strings
from kubeskew.apimachinery.cel.library.patterns import regular_expression
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
from kubeskew.apimachinery.cel.types import (
    DYN,
    PRIMITIVES,
    UNKNOWN,
    Type,
    is_dyn,
    is_optional,
    unwrap_optional,
)
from kubeskew.apimachinery.cel.values import type_name

Bindings = dict[Type, Type]

_NULLABLE = frozenset({"opaque", "struct", "null", "any", "duration", "timestamp"})
_LOGIC = frozenset({"_&&_", "_||_"})
_LITERALS: Mapping[str, tuple[int, Callable[[Any], object]]] = {
    "duration": (0, standard.to_duration),
    "timestamp": (0, standard.to_timestamp),
    "matches": (0, regular_expression),
}


def assignable(bindings: Bindings, given: Type, wanted: Type) -> bool:
    """Binds type parameters of both, even if `given` does not fit."""
    if wanted.kind == "param":
        fits, bound = _substitutable(bindings, given, wanted)
        if fits or bound:
            return fits
    if given.kind == "param":
        return _substitutable(bindings, wanted, given)[0]
    if given.kind in UNKNOWN or wanted.kind in UNKNOWN:
        return True
    if given.kind == "null":
        return wanted.kind in _NULLABLE
    if wanted.kind == "null":
        return given.kind in _NULLABLE
    if given.kind in PRIMITIVES:
        return wanted.kind == given.kind
    if given.kind != wanted.kind:
        return False
    if given.kind == "type":
        return True
    if given.kind in ("opaque", "struct") and given.name != wanted.name:
        return False
    return all_assignable(bindings, given.parameters, wanted.parameters)


def all_assignable(bindings: Bindings, given: tuple[Type, ...], wanted: tuple[Type, ...]) -> bool:
    return len(given) == len(wanted) and all(
        assignable(bindings, have, other) for have, other in zip(given, wanted, strict=True)
    )


def _substitutable(bindings: Bindings, given: Type, parameter: Type) -> tuple[bool, bool]:
    """First whether `parameter` may be `given`, then whether it was bound already."""
    if given == parameter:
        return True, True
    bound = bindings.get(parameter)
    if bound is not None:
        if given == bound:
            return True, True
        if assignable(bindings, given, bound):
            general = most_general(given, bound)
            if _absent(bindings, parameter, general):
                bindings[parameter] = general
            return True, True
        return False, True
    if _absent(bindings, parameter, given):
        bindings[parameter] = given
        return True, False
    return False, False


def most_general(one: Type, other: Type) -> Type:
    return one if _less_specific(one, other) else other


def _less_specific(one: Type, other: Type) -> bool:
    if is_dyn(one) or one.kind == "param":
        return True
    if is_dyn(other) or other.kind == "param" or one.kind != other.kind:
        return False
    if one.kind in ("list", "map") or is_optional(one):
        return one.name == other.name and all(
            _less_specific(mine, theirs)
            for mine, theirs in zip(one.parameters, other.parameters, strict=True)
        )
    return one.kind == "type" or one == other


def _absent(bindings: Bindings, parameter: Type, within: Type) -> bool:
    if within == parameter:
        return False
    if within.kind == "param":
        bound = bindings.get(within)
        return bound is None or _absent(bindings, parameter, bound)
    return all(_absent(bindings, parameter, inner) for inner in within.parameters)


def substitute(bindings: Bindings, kind: Type, *, free: Type | None = None) -> Type:
    """Replaces bound parameters, and unbound ones by `free` if that is given."""
    bound = bindings.get(kind) if kind.kind == "param" else None
    if bound is not None:
        return substitute(bindings, bound, free=free)
    if kind.kind == "param":
        return kind if free is None else free
    if not kind.parameters:
        return kind
    inner = tuple(substitute(bindings, parameter, free=free) for parameter in kind.parameters)
    return kind if inner == kind.parameters else Type(kind.kind, kind.name, inner)


def settled(bindings: Bindings, kind: Type) -> Type:
    """Type parameters that were never bound become `dyn`."""
    return substitute(bindings, kind, free=DYN)


@dataclass(slots=True)
class Checked:
    """Types and references of an expression's nodes.

    `names` has the (qualified) names of variables, `values` the types that stand as values; `functions` are
    calls whose name is qualified (`sets.contains`): they have no target.
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
        """Binds parameters as `all_assignable` does, but only if all types fit."""
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
        """None if there is nothing of that name; else the reference is noted for `node`."""
        variable = self._lookup(name)
        if variable is not None:
            self._checked.names[node] = name.removeprefix(".")
            return variable
        named = self._named(name.removeprefix("."))
        if named is None:
            return None
        self._checked.values[node] = named
        return types.type_of(named)

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
        """Only variables of comprehensions are local; the first part of the name counts."""
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
        """Widens to a type that fits both elements, or to `dyn`; a validator reports later that they must not
        be mixed.
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
    """`a.b.c` for a node that consists of identifiers and selections alone, else None."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.test:
        prefix = qualified(node.operand)
        return None if prefix is None else f"{prefix}.{node.field}"
    return None


def wrong_literals(checked: Checked) -> Iterator[Issue]:
    """Each literal duration, timestamp or pattern that cannot be read is an issue."""
    for node in _calls(checked):
        if node.function not in _LITERALS or not node.arguments:
            continue
        place, read = _LITERALS[node.function]
        argument = node.arguments[place]
        if isinstance(argument, Literal):
            try:
                read(argument.value)
            except (ValueError, EvaluationError):
                yield Issue(argument.offset, f"invalid {node.function} argument")


def wrong_arguments(checked: Checked) -> Iterator[Issue]:
    """Each literal that the one overload of its call cannot read is an issue."""
    for node in _calls(checked):
        overloads = checked.overloads.get(node, ())
        read = overloads[0].literal if len(overloads) == 1 else None
        if read is None:
            continue
        for argument in node.arguments:
            if isinstance(argument, Literal):
                try:
                    read(argument.value)
                except EvaluationError as error:
                    yield Issue(argument.offset, str(error))


def wrong_formats(checked: Checked) -> Iterator[Issue]:
    """Reports calls of `format` on literals that would fail on any input."""
    for node in _calls(checked):
        match node:
            case Call("format", (ListLiteral(items),), target=Literal(str(text))):
                try:
                    strings.check(text, items, checked.types.__getitem__)
                except strings.WrongArgumentError as wrong:
                    yield Issue(wrong.node.offset, str(wrong))
                except EvaluationError as error:
                    yield Issue(node.offset, str(error))


def mixed_aggregates(checked: Checked) -> Iterator[Issue]:
    """Lists and maps of mixed types are issues, except in arguments of `format`."""
    waiting: list[Node] = [checked.root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Call) and node.function == "format":
            continue
        if isinstance(node, ListLiteral):
            first = next(_mismatches(checked, node.items, node.optional), None)
            yield from () if first is None else (first,)
        elif isinstance(node, MapLiteral):
            optional = frozenset(place for place, entry in enumerate(node.entries) if entry.optional)
            yield from _mismatches(checked, [entry.key for entry in node.entries], frozenset())
            yield from _mismatches(checked, [entry.value for entry in node.entries], optional)
        waiting += _children(node)


def _mismatches(
    checked: Checked, nodes: tuple[Node, ...] | list[Node], optional: frozenset[int]
) -> Iterator[Issue]:
    """The first node sets the type that the others must have."""
    expected: Type | None = None
    for place, node in enumerate(nodes):
        kind = checked.types[node]
        if place in optional:
            kind, _ = unwrap_optional(kind)
        if expected is None:
            expected = kind
        elif not _equivalent(expected, kind):
            yield Issue(node.offset, f"expected type '{expected.checked}' but found '{kind.checked}'")


def _equivalent(one: Type, other: Type) -> bool:
    return (
        one.kind == other.kind
        and (one.kind == "param" or one.name == other.name)
        and len(one.parameters) == len(other.parameters)
        and all(map(_equivalent, one.parameters, other.parameters))
    )


def _calls(checked: Checked) -> Iterator[Call]:
    return (node for node in checked.types if isinstance(node, Call))


def _children(node: Node) -> Iterator[Node]:
    match node:
        case Select():
            yield node.operand
        case Call():
            yield from node.arguments if node.target is None else (node.target, *node.arguments)
        case ListLiteral():
            yield from node.items
        case MapLiteral():
            for entry in node.entries:
                yield from (entry.key, entry.value)
        case ObjectLiteral():
            yield from (entry.value for entry in node.entries)
        case Comprehension():
            yield from (node.range, node.start, node.condition, node.step, node.result)

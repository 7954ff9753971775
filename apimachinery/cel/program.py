"""Compiles a syntax tree to a closure: one Python call per node, errors as exceptions."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from apimachinery.cel.errors import NO_SUCH_OVERLOAD, CompileError, EvaluationError, located
from apimachinery.cel.macros import MACROS, Compiler, Macro
from apimachinery.cel.nodes import Call, Ident, Index, ListLiteral, Literal, MapLiteral, Node, Select
from apimachinery.cel.overloads import Functions, Overload
from apimachinery.cel.standard import OPERATORS, regular_expression
from apimachinery.cel.syntax import parse
from apimachinery.cel.values import Optional, Type, find, lookup, type_name

Variables = Mapping[str, Any]
Program = Callable[[Variables], Any]

_TYPES = {
    name: Type(name) for name in ("bool", "int", "uint", "double", "string", "bytes", "list", "map", "type")
} | {"null_type": Type("null_type")}
# Functions of the standard library, whose failing dispatch names the function alone.
_STANDARD = frozenset({"size", "contains", "startsWith", "endsWith", "matches"})
_FOLDED = frozenset({"int", "uint", "double", "bool", "duration", "timestamp"})


Variable = Collection[str] | None


def compile_program(source: str, functions: Functions, variables: Mapping[str, Variable]) -> Program:
    """The program of `source`, a function of the variables' values; raises CompileError.

    `variables` gives each variable's fields, or None if they are not known.
    """
    builder = _ProgramBuilder(source, functions, variables)
    program = builder.build(parse(source), frozenset(variables))
    if builder.errors:
        raise CompileError("compilation failed: " + "\n".join(builder.errors))
    return program


class _ProgramBuilder(Compiler):
    def __init__(self, source: str, functions: Functions, variables: Mapping[str, Variable]) -> None:
        self._source = source
        self._variables = variables
        self._functions = functions
        self.errors: list[str] = []

    def fail(self, node: Node, message: str) -> None:
        self.errors.append(located(self._source, node.offset, message))

    def build(self, node: Node, scope: frozenset[str]) -> Program:
        match node:
            case Literal(value):
                return lambda _: value
            case Ident(name):
                return self._ident(node, name, scope)
            case Select(operand, field, optional):
                self._check_field(node, operand, field)
                return self._access(self.build(operand, scope), lambda _: field, optional)
            case Index(operand, key, optional):
                return self._access(self.build(operand, scope), self.build(key, scope), optional)
            case ListLiteral(items):
                programs = [self.build(item, scope) for item in items]
                return lambda env: [program(env) for program in programs]
            case MapLiteral(entries):
                pairs = [(self.build(key, scope), self.build(value, scope)) for key, value in entries]
                return lambda env: {key(env): value(env) for key, value in pairs}
            case Call():
                return self._call(node, scope)

    def _ident(self, node: Node, name: str, scope: frozenset[str]) -> Program:
        if name in scope:
            return lambda env: env[name]
        if name in _TYPES:
            value = _TYPES[name]
            return lambda _: value
        self.fail(node, f"undeclared reference to '{name}' (in container '')")
        return lambda _: None

    def _check_field(self, node: Node, operand: Node, field: str) -> None:
        fields = self._variables.get(operand.name) if isinstance(operand, Ident) else None
        if fields is not None and field not in fields:
            self.fail(node, f"undefined field '{field}'")

    @staticmethod
    def _access(operand: Program, key: Program, optional: bool) -> Program:
        if optional:
            return lambda env: find(operand(env), key(env))

        def access(env: Variables) -> Any:
            container = operand(env)
            if isinstance(container, Optional):  # a chain of optionals stays optional
                return find(container, key(env))
            return lookup(container, key(env))

        return access

    def _call(self, node: Call, scope: frozenset[str]) -> Program:
        special: Macro | None = MACROS.get((node.function, node.target is not None, len(node.arguments)))
        if special is not None:
            program = special(self, node, scope)
            if program is not None:
                return program
        if node.function in OPERATORS:
            return self._operator(node, scope)
        return self._function(node, scope)

    def _operator(self, node: Call, scope: frozenset[str]) -> Program:
        function = OPERATORS[node.function]
        operands = [self.build(argument, scope) for argument in node.arguments]
        if len(operands) == 1:
            (operand,) = operands
            return lambda env: function(operand(env))
        left, right = operands
        return lambda env: function(left(env), right(env))

    def _function(self, node: Call, scope: frozenset[str]) -> Program:
        name, arguments = node.function, node.arguments
        method = node.target is not None
        if isinstance(node.target, Ident) and f"{node.target.name}.{name}" in self._functions:
            name, method = f"{node.target.name}.{name}", False
        elif node.target is not None:
            arguments = (node.target, *arguments)
        programs = [self.build(argument, scope) for argument in arguments]
        if name not in self._functions:
            self.fail(node, f"undeclared reference to '{name}' (in container '')")
        overloads = self._functions.of(name, method=method)
        self._check_regex(node, arguments)
        program = _dispatch(name, overloads, programs)
        if name in _FOLDED and all(isinstance(argument, Literal) for argument in node.arguments):
            self._fold(program)
        return program

    def _check_regex(self, node: Call, arguments: tuple[Node, ...]) -> None:
        if node.function == "matches" and isinstance(arguments[-1], Literal):
            try:
                regular_expression(arguments[-1].value)
            except (ValueError, TypeError):
                self.fail(arguments[-1], "invalid matches argument")

    @staticmethod
    def _fold(program: Program) -> None:
        """A conversion of a constant fails before anything runs."""
        try:
            program({})
        except EvaluationError as error:
            raise CompileError(f"program instantiation failed: {error}") from None


def _dispatch(name: str, overloads: tuple[Overload, ...], programs: list[Program]) -> Program:
    known: dict[tuple[str, ...], Callable[..., Any]] = {}

    def call(env: Variables) -> Any:
        values = [program(env) for program in programs]
        types = tuple([type_name(value) for value in values])
        function = known.get(types)
        if function is None:
            function = known[types] = _find_overload(name, overloads, types)
        return function(*values)

    return call


def _find_overload(name: str, overloads: tuple[Overload, ...], types: tuple[str, ...]) -> Callable[..., Any]:
    for overload in overloads:
        if overload.accepts(types):
            return overload.function
    short = name in _STANDARD
    raise EvaluationError(f"{NO_SUCH_OVERLOAD}: {name}" + ("" if short else f"({', '.join(types)})"))

"""Compiles x-kubernetes-validations, and reads field paths that rules and selectable fields name.

Sources: apiextensions-apiserver pkg/apiserver/schema/cel/validation.go (ValidFieldPath), 1.36;
apiextensions-apiserver pkg/apiserver/schema/cel/compilation.go, 1.36.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from kubeskew.apimachinery import cel
from kubeskew.apimachinery.cel import types
from kubeskew.apimachinery.cel.release import Release
from kubeskew.apimachinery.objects import Object

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]']+|'.*", re.DOTALL)
_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\",
}  # fmt: skip
SELF: Final = "self"
OLD_SELF: Final = "oldSelf"
CALL_LIMIT: Final = 1_000_000  # of one expression
BUDGET: Final = 10_000_000  # for all rules of one object
_NO_MESSAGE: Final = "messageExpression must evaluate to a string"
SHORT: Final = 64 * 1024  # bytes
_REQUEST_BYTES: Final = 3 * 1024 * 1024

Stored: TypeAlias = Callable[[str], bool]  # whether an expression is in storage already
Variables: TypeAlias = "Mapping[str, cel.Type | cel.Declared]"


class FieldPathError(ValueError):
    """The path names no field; the text is upstream's."""


class UnknownFieldError(FieldPathError):
    """The path is well formed, and the schema has no such field."""

    def __init__(self) -> None:
        super().__init__("does not refer to a valid field")


def read_field_path(path: str, props: Object, *, brackets: bool = True) -> tuple[str, Object]:
    """The path comes as errors show it, without a leading dot, with the schema of its field."""
    tokens = iter(_TOKEN.findall(path))
    shown, node = "", props
    for step in tokens:
        if step == "[":
            if not brackets:
                raise FieldPathError("array notation is not allowed")
            shown, node = _step(shown, node, _quoted(tokens))
            closing = _next(tokens)
            if closing != "]":
                raise FieldPathError(f"expected ] but got {closing}")
        elif step == ".":
            shown, node = _step(shown, node, _next(tokens))
        else:
            raise FieldPathError(f"expected [ or . but got: {step}")
    return shown, node


def _next(tokens: Iterator[str]) -> str:
    step = next(tokens, None)
    if step is None:
        raise FieldPathError("unexpected end of JSON path")
    return step


def _quoted(tokens: Iterator[str]) -> str:
    token = _next(tokens)
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise FieldPathError(f"expected single quoted string but got {token}")

    def unescape(found: re.Match[str]) -> str:
        if found[1] not in _ESCAPES:
            raise FieldPathError(f"invalid string literal: invalid escape char {found[0]}")
        return _ESCAPES[found[1]]

    return re.sub(r"\\(.)", unescape, token[1:-1])


def _step(shown: str, node: Object, name: str) -> tuple[str, Object]:
    properties, extra = node.get("properties"), node.get("additionalProperties")
    if properties:
        below = properties.get(name)
        if below is None:
            raise UnknownFieldError
        return (f"{shown}.{name}" if shown else name), below
    if extra is not None:
        return f"{shown}[{name}]", extra if isinstance(extra, dict) else {}
    raise UnknownFieldError


@dataclass(slots=True)
class RuleProgram:
    """A rule whose text is blank has neither `program` nor `error`."""

    rule: Object
    program: "cel.Program | None" = None
    error: str = ""
    message: "cel.Program | None" = None
    message_error: str = ""
    field_path: str = ""
    uses_old: bool = False
    optional_old: bool = False
    most: int = 0  # how often it could run where nothing says so
    max_cost: int = 0
    message_max_cost: int = 0

    @property
    def text(self) -> str:
        return (self.rule.get("message") or "").strip() or (self.rule.get("rule") or "").strip()


@dataclass(slots=True)
class RuleNode:
    """Only nodes with rules, their own or below them, are in the tree."""

    props: Object  # of the schema at the node
    type: str
    declared: "cel.Declared"
    rules: list[RuleProgram]
    items: "RuleNode | None" = None
    properties: dict[str, "RuleNode"] = field(default_factory=dict)
    additional: "RuleNode | None" = None


def effort(node: RuleNode | None, *, many: bool = False) -> int:
    """All rules together cost this much for an object of up to SHORT bytes; BUDGET at most."""
    if node is None:
        return 0
    total = 0
    for rule in node.rules:
        often = max(rule.most * SHORT // _REQUEST_BYTES, 1) if many else 1
        total += often * min(rule.max_cost, CALL_LIMIT)
    below = sum(effort(prop, many=many) for prop in node.properties.values())
    return min(total + below + effort(node.items, many=True) + effort(node.additional, many=True), BUDGET)


def compile_rules(
    rules: Sequence[Object], props: Object, declared: "cel.Declared", release: Release, stored: Stored
) -> list[RuleProgram]:
    return [_compile(rule, props, declared, release, stored) for rule in rules]


def _compile(
    rule: Object, props: Object, declared: "cel.Declared", release: Release, stored: Stored
) -> RuleProgram:
    expression, optional = rule.get("rule") or "", bool(rule.get("optionalOldSelf"))
    found = RuleProgram(rule, optional_old=optional)
    if not expression.strip():
        return found
    old = types.optional_of(declared.type) if optional else declared
    variables: Variables = {SELF: declared, OLD_SELF: old}
    environment = cel.environment(release, stored=stored(expression), variables=variables)
    try:
        found.program = cel.compile(expression, environment)
    except cel.InstantiationError as error:
        found.error = str(error) if error.result == types.BOOL else "cel expression must evaluate to a bool"
        return found
    except cel.CompileError as error:
        found.error = str(error)
        return found
    if found.program.result != types.BOOL:
        found.program, found.error = None, "cel expression must evaluate to a bool"
        return found
    found.uses_old = OLD_SELF in found.program.names
    found.max_cost = found.program.estimate(declared)[1]
    found.most = _REQUEST_BYTES // (declared.smallest + 1)
    _compile_message(found, declared, variables, release, stored)
    path = rule.get("fieldPath")
    if path:
        try:
            found.field_path = read_field_path(path, props)[0]
        except FieldPathError:
            found.field_path = ""
    return found


def _compile_message(
    found: RuleProgram, declared: "cel.Declared", variables: Variables, release: Release, stored: Stored
) -> None:
    expression = found.rule.get("messageExpression") or ""
    if not expression:
        return
    environment = cel.environment(release, stored=stored(expression), variables=variables)
    try:
        program = cel.compile(expression, environment)
    except cel.InstantiationError as error:
        fits = error.result == types.STRING
        found.message_error = f"messageExpression {error}" if fits else _NO_MESSAGE
        return
    except cel.CompileError as error:
        found.message_error = f"messageExpression {error}"
        return
    if program.result != types.STRING:
        found.message_error = _NO_MESSAGE
        return
    found.message = program
    found.message_max_cost = program.estimate(declared)[1]

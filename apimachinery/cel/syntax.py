"""Text to syntax tree: celpy's grammar, with the optional syntax (`.?name`, `[?key]`) added to it.

Lark and the grammar are loaded at the first expression: they cost 0.1 s.
"""

import importlib.util
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apimachinery.cel.errors import CompileError, located
from apimachinery.cel.nodes import Call, Ident, Index, ListLiteral, Literal, MapLiteral, Node, Select
from apimachinery.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt

if TYPE_CHECKING:
    from lark import Lark

_MEMBER_RULE = "member         : member_dot |"
_OPTIONAL_RULES = """member         : member_optional_dot | member_optional_index | member_dot |"""
_OPTIONAL_DEFINITIONS = """
member_optional_dot   : member "." "?" IDENT
member_optional_index : member "[" "?" expr "]"
"""
_BINARY = {
    "relation_lt": "_<_", "relation_le": "_<=_", "relation_gt": "_>_", "relation_ge": "_>=_",
    "relation_eq": "_==_", "relation_ne": "_!=_", "relation_in": "@in",
    "addition_add": "_+_", "addition_sub": "_-_",
    "multiplication_mul": "_*_", "multiplication_div": "_/_", "multiplication_mod": "_%_",
}  # fmt: skip
_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2}))"
)


@cache
def _parser() -> "Lark":
    import lark

    spec = importlib.util.find_spec("celpy")
    if spec is None or spec.origin is None:
        raise RuntimeError("celpy is not installed")
    grammar = Path(spec.origin).with_name("cel.lark").read_text(encoding="utf-8")
    if _MEMBER_RULE not in grammar:
        raise RuntimeError("this celpy has another grammar: adapt apimachinery/cel/syntax.py")
    grammar = grammar.replace(_MEMBER_RULE, _OPTIONAL_RULES) + _OPTIONAL_DEFINITIONS

    def literal(token: lark.Token) -> lark.Token:
        return token.update(type="BOOL_LIT") if token.value in ("true", "false") else token

    return lark.Lark(
        grammar,
        parser="lalr",
        start="expr",
        g_regex_flags=re.MULTILINE,
        lexer_callbacks={"IDENT": literal},
        propagate_positions=True,
        maybe_placeholders=False,
        priority="invert",
    )


def parse(source: str) -> Node:
    """The tree of `source`; raises CompileError on a syntax error."""
    from lark.exceptions import UnexpectedInput

    try:
        tree = _parser().parse(source)
    except UnexpectedInput as error:
        offset = error.pos_in_stream
        offset = len(source) if offset is None or offset < 0 else offset
        found = repr(source[offset : offset + 1]) if offset < len(source) else "'<EOF>'"
        raise CompileError(
            "compilation failed: " + located(source, offset, f"Syntax error: unexpected input {found}")
        ) from None
    return _Builder(source).build(tree)


class _Builder:
    """Turns lark's tree, with a level for every precedence, into ours."""

    def __init__(self, source: str) -> None:
        self._source = source

    def build(self, tree: Any) -> Node:
        while len(tree.children) == 1 and tree.data in _PASS_THROUGH:
            tree = tree.children[0]
        builder = getattr(self, f"_{tree.data}", None)
        if builder is None:
            raise CompileError(f"compilation failed: unsupported syntax: {tree.data}")
        node: Node = builder(tree)
        return node

    def _after(self, tree: Any) -> int:
        """Where the token behind `tree` starts."""
        end = tree.end_pos if hasattr(tree, "end_pos") else tree.meta.end_pos
        while end < len(self._source) and self._source[end].isspace():
            end += 1
        return int(end)

    def _expr(self, tree: Any) -> Node:
        parts = tuple(self.build(child) for child in tree.children)
        return Call("_?_:_", parts, None, self._after(tree.children[0]))

    def _conditionalor(self, tree: Any) -> Node:
        left, right = tree.children
        return Call("_||_", (self.build(left), self.build(right)), None, self._after(left))

    def _conditionaland(self, tree: Any) -> Node:
        left, right = tree.children
        return Call("_&&_", (self.build(left), self.build(right)), None, self._after(left))

    def _relation(self, tree: Any) -> Node:
        operator, right = tree.children
        left = operator.children[0]
        return Call(_BINARY[operator.data], (self.build(left), self.build(right)), None, self._after(left))

    _addition = _multiplication = _relation

    def _unary(self, tree: Any) -> Node:
        operator, operand = tree.children
        function = "!_" if operator.data == "unary_not" else "-_"
        return Call(function, (self.build(operand),), None, operator.meta.start_pos)

    def _member_dot(self, tree: Any) -> Node:
        operand, name = tree.children
        return Select(self.build(operand), str(name), False, self._after(operand))

    def _member_optional_dot(self, tree: Any) -> Node:
        operand, name = tree.children
        return Select(self.build(operand), str(name), True, self._after(operand))

    def _member_dot_arg(self, tree: Any) -> Node:
        operand, name = tree.children[:2]
        return Call(str(name), self._arguments(tree.children[2:]), self.build(operand), self._after(name))

    def _member_index(self, tree: Any) -> Node:
        operand, key = tree.children
        return Index(self.build(operand), self.build(key), False, self._after(operand))

    def _member_optional_index(self, tree: Any) -> Node:
        operand, key = tree.children
        return Index(self.build(operand), self.build(key), True, self._after(operand))

    def _ident(self, tree: Any) -> Node:
        name = tree.children[0]
        return Ident(str(name), name.start_pos)

    _dot_ident = _ident

    def _ident_arg(self, tree: Any) -> Node:
        name = tree.children[0]
        return Call(str(name), self._arguments(tree.children[1:]), None, self._after(name))

    _dot_ident_arg = _ident_arg

    def _arguments(self, trees: list[Any]) -> tuple[Node, ...]:
        return tuple(self.build(child) for tree in trees for child in tree.children)

    def _list_lit(self, tree: Any) -> Node:
        return ListLiteral(self._arguments(tree.children), tree.meta.start_pos)

    def _map_lit(self, tree: Any) -> Node:
        parts = self._arguments(tree.children)
        return MapLiteral(tuple(zip(parts[::2], parts[1::2], strict=True)), tree.meta.start_pos)

    def _literal(self, tree: Any) -> Node:
        token = tree.children[0]
        try:
            value = _LITERALS[token.type](str(token))
        except ValueError as error:
            message = located(self._source, token.start_pos, str(error))
            raise CompileError(f"compilation failed: {message}") from None
        return Literal(value, token.start_pos)


_PASS_THROUGH = frozenset(
    {"expr", "conditionalor", "conditionaland", "relation", "addition", "multiplication", "unary", "member"}
    | {"primary", "paren_expr"}
)


def _int(text: str) -> int:
    value = int(text, 0) if "x" in text else int(text)
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError("invalid int literal")
    return value


def _uint(text: str) -> UInt:
    text = text[:-1]
    value = int(text, 0) if "x" in text else int(text)
    if not 0 <= value <= UINT_MAX:
        raise ValueError("invalid uint literal")
    return UInt(value)


def _string(text: str) -> str:
    raw = text[0] in "rR"
    text = text[1:] if raw else text
    quotes = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    text = text[quotes:-quotes]
    return text if raw else _ESCAPE.sub(_unescape, text)


def _unescape(found: "re.Match[str]") -> str:
    simple, *codes = found.groups()
    if simple is not None:
        return _ESCAPES[simple]
    *hexadecimal, octal = codes
    return chr(int(octal, 8)) if octal else chr(int(next(code for code in hexadecimal if code), 16))


def _bytes(text: str) -> bytes:
    return _string(text[1:]).encode()


_LITERALS: Mapping[str, Callable[[str], Any]] = {
    "INT_LIT": _int,
    "UINT_LIT": _uint,
    "FLOAT_LIT": float,
    "STRING_LIT": _string,
    "MLSTRING_LIT": _string,
    "BYTES_LIT": _bytes,
    "BOOL_LIT": lambda text: text == "true",
    "NULL_LIT": lambda _: None,
}

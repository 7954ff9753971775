"""Parses a text into a syntax tree: a recursive descent parser that expands macros on the way, as cel-go's
does.

celpy's grammar was tried first. It knows neither optional values (`?.`, `[?`, `{?`) nor escaped names, and
lark cannot word errors as ANTLR does; tests still compare with celpy. A text that does not parse is read once
more by `syntax_errors`, which recovers and reports like ANTLR.

Source: github.com/google/cel-go/parser (CEL.g4, parser.go), as of Kubernetes 1.36.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kubeskew.apimachinery.cel.errors import CompileError, Issue, report
from kubeskew.apimachinery.cel.parser import lexer
from kubeskew.apimachinery.cel.parser.lexer import EOF, Token, tokenize
from kubeskew.apimachinery.cel.parser.macros import Macro, MacroError
from kubeskew.apimachinery.cel.parser.nodes import (
    Call,
    Entry,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    ObjectLiteral,
    Select,
)

CODE_POINTS = 100_000
DEPTH = 250
RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
_RELATIONS = {
    "<": "_<_", "<=": "_<=_", ">": "_>_", ">=": "_>=_", "==": "_==_", "!=": "_!=_", "in": "@in",
}  # fmt: skip
_SUMS = {"+": "_+_", "-": "_-_"}
_PRODUCTS = {"*": "_*_", "/": "_/_", "%": "_%_"}
_SIGNED = ("NUM_INT", "NUM_FLOAT")
_VALUES: Mapping[str, Callable[[str], Any]] = {
    "NUM_INT": lexer.integer,
    "NUM_UINT": lexer.unsigned,
    "NUM_FLOAT": lexer.double,
    "STRING": lexer.string,
    "BYTES": lambda text: lexer.octets(text[1:]),
    "true": lambda _: True,
    "false": lambda _: False,
    "null": lambda _: None,
}

Macros = Mapping[tuple[str, bool, int], Macro]


class _UnexpectedError(Exception):
    """The text does not parse; `syntax_errors` has to find the errors."""


class _TooDeepError(Exception):
    pass


def parse(source: str, macros: Macros, *, optionals: bool = True) -> Node:
    """Raises CompileError with all issues."""
    if len(source) > CODE_POINTS:
        message = f"expression code point size exceeds limit: size: {len(source)}, limit {CODE_POINTS}"
        raise CompileError(report(source, [Issue(-1, message)]))
    tokens, issues = tokenize(source)
    parser = _Parser(tokens, macros, optionals)
    try:
        node = parser.start()
    except _TooDeepError:
        raise CompileError(
            report(source, [*issues, Issue(-1, f"expression recursion limit exceeded: {DEPTH}")])
        ) from None
    except _UnexpectedError:
        from kubeskew.apimachinery.cel.parser.syntax_errors import syntax_issues  # seldom needed

        issues += syntax_issues(tokens, source)
    else:
        issues += parser.issues
        if not issues:
            return node
    raise CompileError(report(source, issues))


class _Parser:
    def __init__(self, tokens: list[Token], macros: Macros, optionals: bool) -> None:
        self._tokens = tokens
        self._place = 0
        self._macros = macros
        self._optionals = optionals
        self._depth = {"expr": 0, "relation": 0, "calc": 0}
        self._heights: dict[Node, int] = {}
        self._highest = 0
        self.issues: list[Issue] = []

    @property
    def _kind(self) -> str:
        return self._tokens[self._place].kind

    def _next(self) -> Token:
        token = self._tokens[self._place]
        self._place += 1
        return token

    def _take(self, kind: str) -> Token:
        if self._kind != kind:
            raise _UnexpectedError
        return self._next()

    def _accept(self, kind: str) -> Token | None:
        return self._next() if self._kind == kind else None

    def _deeper(self, rule: str) -> None:
        self._depth[rule] += 1
        if self._depth[rule] > DEPTH:
            raise _TooDeepError

    def start(self) -> Node:
        node = self._expression()
        self._take(EOF)
        if self._highest > DEPTH:
            self.issues.append(Issue(-1, "max recursion depth exceeded"))
        return node

    def _expression(self) -> Node:
        self._deeper("expr")
        node = self._disjunction()
        if question := self._accept("?"):
            then = self._disjunction()
            self._take(":")
            otherwise = self._expression()
            node = self._high(Call("_?_:_", (node, then, otherwise), question.start))
        self._depth["expr"] -= 1
        return node

    def _high(self, node: Call | Select, *below: Node) -> Node:
        """Notes the height of a node that counts for cel-go's limit, and returns the node."""
        children = (*node.arguments, *below) if isinstance(node, Call) else (node.operand,)
        height = 1 + max([self._heights.get(child, 0) for child in children], default=0)
        self._heights[node] = height
        self._highest = max(self._highest, height)
        return node

    def _disjunction(self) -> Node:
        terms, offsets = [self._conjunction()], []
        while operator := self._accept("||"):
            offsets.append(operator.start)
            terms.append(self._conjunction())
        return _balanced("_||_", terms, offsets)

    def _conjunction(self) -> Node:
        terms, offsets = [self._relation()], []
        while operator := self._accept("&&"):
            offsets.append(operator.start)
            terms.append(self._relation())
        return _balanced("_&&_", terms, offsets)

    def _relation(self) -> Node:
        self._deeper("relation")
        node = self._sum()
        while (function := _RELATIONS.get(self._kind)) is not None:
            offset = self._next().start
            self._deeper("relation")
            node = self._high(Call(function, (node, self._sum()), offset))
            self._depth["relation"] -= 1
        self._depth["relation"] -= 1
        return node

    def _sum(self) -> Node:
        self._deeper("calc")
        node = self._product()
        while (function := _SUMS.get(self._kind)) is not None:
            offset = self._next().start
            self._deeper("calc")
            node = self._high(Call(function, (node, self._product()), offset))
            self._depth["calc"] -= 1
        self._depth["calc"] -= 1
        return node

    def _product(self) -> Node:
        node = self._unary()
        while (function := _PRODUCTS.get(self._kind)) is not None:
            offset = self._next().start
            self._deeper("calc")
            node = self._high(Call(function, (node, self._unary()), offset))
            self._depth["calc"] -= 1
        return node

    def _unary(self) -> Node:
        kind = self._kind
        if kind == "!":
            return self._repeated("!", "!_")
        if kind == "-" and self._tokens[self._place + 1].kind not in _SIGNED:
            return self._repeated("-", "-_")
        return self._member()

    def _repeated(self, sign: str, function: str) -> Node:
        offset, count = self._tokens[self._place].start, 0
        while self._accept(sign):
            count += 1
        node = self._member()
        return node if count % 2 == 0 else Call(function, (node,), offset)

    def _member(self) -> Node:
        node = self._primary()
        while True:
            kind = self._kind
            if kind == ".":
                node = self._selection(node, self._next())
            elif kind == "[":
                node = self._index(node, self._next())
            else:
                return node

    def _selection(self, operand: Node, dot: Token) -> Node:
        optional = self._accept("?")
        name = self._next()
        if name.kind not in ("IDENTIFIER", "ESC_IDENTIFIER"):
            raise _UnexpectedError
        field = name.text.strip("`")
        if optional:
            if not self._optionals:
                self.issues.append(Issue(dot.start, "unsupported syntax '.?'"))
            return self._high(Call("_?._", (operand, Literal(field, name.start)), dot.start))
        if name.kind == "IDENTIFIER" and (opened := self._accept("(")):
            arguments = self._arguments()
            return self._call(field, arguments, opened.start, operand)
        if name.kind == "ESC_IDENTIFIER":
            self.issues.append(Issue(name.start, "unsupported syntax: '`'"))
        return self._high(Select(operand, field, dot.start))

    def _index(self, operand: Node, bracket: Token) -> Node:
        optional = self._accept("?")
        key = self._expression()
        self._take("]")
        if optional and not self._optionals:
            self.issues.append(Issue(bracket.start, "unsupported syntax '[?'"))
        return self._high(Call("_[?_]" if optional else "_[_]", (operand, key), bracket.start))

    def _primary(self) -> Node:
        token = self._next()
        kind = token.kind
        if kind in _VALUES:
            return self._literal(token, token.text, token.start)
        if kind == "-":
            number = self._next()
            if number.kind not in _SIGNED:
                raise _UnexpectedError
            return self._literal(number, "-" + number.text, token.start)
        if kind == "IDENTIFIER":
            return self._named(token, "")
        if kind == ".":
            return self._named(self._take("IDENTIFIER"), ".")
        if kind == "(":
            node = self._expression()
            self._take(")")
            return node
        if kind == "[":
            return self._list(token)
        if kind == "{":
            return MapLiteral(self._entries(self._map_key), token.start)
        raise _UnexpectedError

    def _literal(self, token: Token, text: str, offset: int) -> Node:
        try:
            return Literal(_VALUES[token.kind](text), offset)
        except ValueError as error:
            self.issues.append(Issue(offset, str(error)))
            return Literal(None, offset)

    def _named(self, token: Token, dot: str) -> Node:
        if (name := self._object_name()) is not None:
            brace = self._take("{")
            return ObjectLiteral(dot + token.text + name, self._entries(self._field_name), brace.start)
        name = dot + token.text
        opened = self._accept("(")
        arguments = self._arguments() if opened else ()
        if token.text in RESERVED:
            offset = token.start - (1 if dot else 0)
            self.issues.append(Issue(offset, f"reserved identifier: {token.text}"))
            return Literal(None, token.start)
        return self._call(name, arguments, opened.start, None) if opened else Ident(name, token.start)

    def _object_name(self) -> str | None:
        """The rest of a qualified name if a brace follows it; else None, and nothing is read."""
        place, name = self._place, ""
        while self._tokens[place].kind == "." and self._tokens[place + 1].kind == "IDENTIFIER":
            name += "." + self._tokens[place + 1].text
            place += 2
        if self._tokens[place].kind != "{":
            return None
        self._place = place
        return name

    def _arguments(self) -> tuple[Node, ...]:
        arguments: list[Node] = []
        if self._kind != ")":
            arguments.append(self._expression())
            while self._accept(","):
                arguments.append(self._expression())
        self._take(")")
        return tuple(arguments)

    def _list(self, bracket: Token) -> Node:
        items: list[Node] = []
        optional: set[int] = set()
        while self._kind not in ("]", ","):
            if mark := self._accept("?"):
                optional.add(len(items))
                self._check_optional(mark)
            items.append(self._expression())
            if self._kind != "," or self._tokens[self._place + 1].kind == "]":
                break
            self._take(",")
        self._accept(",")
        self._take("]")
        return ListLiteral(tuple(items), bracket.start, frozenset(optional))

    def _check_optional(self, mark: Token) -> None:
        if not self._optionals:
            self.issues.append(Issue(mark.start, "unsupported syntax '?'"))

    def _entries(self, key: Callable[[], Any]) -> tuple[Entry, ...]:
        entries: list[Entry] = []
        while self._kind not in ("}", ","):
            mark = self._accept("?")
            if mark:
                self._check_optional(mark)
            name = key()
            colon = self._take(":")
            entries.append(Entry(name, self._expression(), mark is not None, colon.start))
            if self._kind != "," or self._tokens[self._place + 1].kind == "}":
                break
            self._take(",")
        self._accept(",")
        self._take("}")
        return tuple(entries)

    def _map_key(self) -> Node:
        return self._expression()

    def _field_name(self) -> str:
        token = self._next()
        if token.kind not in ("IDENTIFIER", "ESC_IDENTIFIER"):
            raise _UnexpectedError
        if token.kind == "ESC_IDENTIFIER":
            self.issues.append(Issue(token.start, "unsupported syntax: '`'"))
        return token.text.strip("`")

    def _call(self, function: str, arguments: tuple[Node, ...], offset: int, target: Node | None) -> Node:
        call = Call(function, arguments, offset, target)
        if target is not None:
            self._high(call, target)
        macro = self._macros.get((function, target is not None, len(arguments)))
        if macro is None:
            return call
        try:
            expanded = macro(target, arguments, offset)
        except MacroError as error:
            self.issues.append(Issue(error.offset, str(error)))
            return Literal(None, offset)
        if expanded is None:
            return call
        self._heights[expanded] = self._height(call)
        return expanded

    def _height(self, call: Call) -> int:
        known = self._heights.get(call)
        return (
            max([self._heights.get(argument, 0) for argument in call.arguments], default=0)
            if known is None
            else known
        )


def _balanced(function: str, terms: list[Node], offsets: list[int]) -> Node:
    """Makes a balanced tree, which stays shallow."""
    if len(terms) == 1:
        return terms[0]
    middle = len(offsets) // 2
    left = _balanced(function, terms[: middle + 1], offsets[:middle])
    right = _balanced(function, terms[middle + 1 :], offsets[middle + 1 :])
    return Call(function, (left, right), offsets[middle])

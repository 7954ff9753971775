"""Parses awk programs into trees of tuples whose first item is the kind of node."""

from dataclasses import dataclass, field
from typing import Any

from kubeskew.kubelet.containers.tools.awk.symbols import AwkError, symbols_of

Node = tuple[Any, ...]

_LEVELS = (("||",), ("&&",))


@dataclass(slots=True)
class Program:
    begins: list[Node] = field(default_factory=list)
    rules: list[tuple[Node | None, Node | None, Node | None]] = field(default_factory=list)
    ends: list[Node] = field(default_factory=list)
    functions: dict[str, tuple[list[str], Node]] = field(default_factory=dict)


class Reader:
    """Parses a program from its symbols. Raises AwkError."""

    def __init__(self, text: str) -> None:
        self._symbols = symbols_of(text)
        self._at = 0
        self._no_in = 0  # inside the parentheses of `for`, where `in` is no operator
        self._no_greater = 0  # after `print`, where `>` is a redirect

    def program(self) -> Program:
        made = Program()
        self._skip()
        while self._symbols[self._at].kind != "end":
            self._item(made)
            self._skip()
        return made

    # -- symbols

    def _is(self, *texts: str) -> bool:
        symbol = self._symbols[self._at]
        return symbol.kind in {"sign", "keyword"} and symbol.text in texts

    def _accept(self, *texts: str) -> str:
        if not self._is(*texts):
            return ""
        self._at += 1
        return self._symbols[self._at - 1].text

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            shown = self._symbols[self._at].text or "end of program"
            raise AwkError(f"syntax error at {shown!r}")

    def _skip(self) -> None:
        while self._accept("\n", ";"):
            pass

    def _lines(self) -> None:
        while self._accept("\n"):
            pass

    # -- items and statements

    def _item(self, made: Program) -> None:
        if self._accept("function"):
            name = self._symbols[self._at].text
            self._at += 1
            self._accept("(")
            names: list[str] = []
            while not self._accept(")"):
                names.append(self._symbols[self._at].text)
                self._at += 1
                self._accept(",")
                self._lines()
            self._lines()
            made.functions[name] = names, self._block()
            return
        if self._accept("BEGIN"):
            made.begins.append(self._block())
            return
        if self._accept("END"):
            made.ends.append(self._block())
            return
        first = second = None
        if not self._is("{"):
            first = self._expression()
            if self._accept(","):
                self._lines()
                second = self._expression()
        action = self._block() if self._is("{") else None
        made.rules.append((first, second, action))

    def _block(self) -> Node:
        self._expect("{")
        statements = []
        self._skip()
        while not self._accept("}"):
            if self._symbols[self._at].kind == "end":
                raise AwkError("unexpected end of program")
            statements.append(self._statement())
            self._skip()
        return ("block", statements)

    def _statement(self) -> Node:
        if self._is("{"):
            return self._block()
        if self._accept("if"):
            return self._if()
        if self._accept("while"):
            condition = self._parenthesized()
            if self._accept(";"):
                return ("while", condition, ("block", []))
            return ("while", condition, self._body())
        if self._accept("do"):
            body = self._body()
            self._skip()
            self._expect("while")
            return ("do", body, self._parenthesized())
        if self._accept("for"):
            return self._for()
        return self._simple()

    def _parenthesized(self) -> Node:
        self._expect("(")
        saved, self._no_in, self._no_greater = (self._no_in, self._no_greater), 0, 0
        node = self._expression()
        self._no_in, self._no_greater = saved
        self._expect(")")
        return node

    def _body(self) -> Node:
        self._lines()
        if self._accept(";"):
            return ("block", [])
        return self._statement()

    def _if(self) -> Node:
        condition, first = self._parenthesized(), self._body()
        back = self._at
        self._skip()
        if self._accept("else"):
            return ("if", condition, first, self._body())
        self._at = back
        return ("if", condition, first, None)

    def _for(self) -> Node:
        self._expect("(")
        names = self._symbols[self._at : self._at + 4]
        if [s.text for s in names[1:2]] == ["in"] and names[0].kind == "name" and names[3].text == ")":
            self._at += 4
            return ("forin", names[0].text, names[2].text, self._body())
        first = None if self._is(";") else self._simple_expression_statement()
        self._expect(";")
        self._lines()
        condition = None if self._is(";") else self._expression()
        self._expect(";")
        self._lines()
        step = None if self._is(")") else self._simple_expression_statement()
        self._expect(")")
        return ("for", first, condition, step, self._body())

    def _simple_expression_statement(self) -> Node:
        return ("do_expression", self._expression())

    def _simple(self) -> Node:
        for name in ("next", "nextfile", "break", "continue"):
            if self._accept(name):
                return (name,)
        if kind := self._accept("exit", "return"):
            value = None if self._is("\n", ";", "}") else self._expression()
            return (kind, value)
        if self._accept("delete"):
            name = self._symbols[self._at].text
            self._at += 1
            if self._accept("["):
                return ("delete", name, self._list("]"))
            return ("delete", name, None)
        if kind := self._accept("print", "printf"):
            return self._print(kind)
        return self._simple_expression_statement()

    def _print(self, kind: str) -> Node:
        self._no_greater += 1
        values: list[Node] = []
        if not self._is("\n", ";", "}", ">", ">>", "|"):
            values = [self._expression()]
            while self._accept(","):
                self._lines()
                values.append(self._expression())
        self._no_greater -= 1
        if len(values) == 1 and values[0][0] == "group":
            values = list(values[0][1])
        target = None
        if how := self._accept(">", ">>", "|"):
            target = (how, self._concatenation())
        return (kind, values, target)

    def _list(self, closing: str) -> list[Node]:
        found: list[Node] = []
        self._lines()
        saved, self._no_in, self._no_greater = (self._no_in, self._no_greater), 0, 0
        while not self._accept(closing):
            found.append(self._expression())
            self._lines()
            if not self._accept(",") and not self._is(closing):
                raise AwkError(f"syntax error at {self._symbols[self._at].text!r}")
            self._lines()
        self._no_in, self._no_greater = saved
        return found

    # -- expressions, from the loosest operator on

    def _expression(self) -> Node:
        left = self._conditional()
        if self._is("=", "+=", "-=", "*=", "/=", "%=", "^=", "**=") and left[0] in {"name", "field", "index"}:
            operator = self._accept("=", "+=", "-=", "*=", "/=", "%=", "^=", "**=").replace("**", "^")
            self._lines()
            return ("assign", operator[:-1], left, self._expression())
        return left

    def _conditional(self) -> Node:
        condition = self._logical(0)
        if not self._accept("?"):
            return condition
        self._lines()
        first = self._expression()
        self._lines()
        self._expect(":")
        self._lines()
        return ("cond", condition, first, self._expression())

    def _logical(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._membership()
        left = self._logical(level + 1)
        while operator := self._accept(*_LEVELS[level]):
            self._lines()
            left = (operator, left, self._logical(level + 1))
        return left

    def _membership(self) -> Node:
        left = self._matching()
        while not self._no_in and self._accept("in"):
            name = self._symbols[self._at].text
            self._at += 1
            keys = list(left[1]) if left[0] == "group" else [left]
            left = ("in", keys, name)
        return left

    def _matching(self) -> Node:
        left = self._comparison()
        while operator := self._accept("~", "!~"):
            left = ("match", operator, left, self._comparison())
        return left

    def _comparison(self) -> Node:
        left = self._concatenation()
        signs = ("<", "<=", "==", "!=", ">=") + (() if self._no_greater else (">",))
        if operator := self._accept(*signs):
            return ("compare", operator, left, self._concatenation())
        if self._is("|") and self._symbols[self._at + 1].text == "getline":
            self._at += 2
            return ("getline", left, self._target())
        return left

    def _concatenation(self) -> Node:
        left = self._additive()
        while self._begins_operand():
            left = ("concat", left, self._additive())
        return left

    def _begins_operand(self) -> bool:
        symbol = self._symbols[self._at]
        if symbol.kind in {"number", "string", "name", "call", "pattern"}:
            return symbol.kind != "pattern"
        return symbol.kind == "sign" and symbol.text in {"$", "!", "(", "-", "+", "++", "--"}

    def _additive(self) -> Node:
        left = self._multiplicative()
        while operator := self._accept("+", "-"):
            left = ("binary", operator, left, self._multiplicative())
        return left

    def _multiplicative(self) -> Node:
        left = self._unary()
        while operator := self._accept("*", "/", "%"):
            left = ("binary", operator, left, self._unary())
        return left

    def _unary(self) -> Node:
        if operator := self._accept("!", "-", "+"):
            return ("unary", operator, self._unary())
        return self._power()

    def _power(self) -> Node:
        left = self._postfix()
        if self._accept("^", "**"):
            return ("binary", "^", left, self._unary())
        return left

    def _postfix(self) -> Node:
        if operator := self._accept("++", "--"):
            return ("before", operator, self._postfix())
        node = self._primary()
        if node[0] in {"name", "field", "index"} and (operator := self._accept("++", "--")):
            return ("after", operator, node)
        return node

    def _primary(self) -> Node:
        symbol = self._symbols[self._at]
        self._at += 1
        if symbol.kind == "number":
            text = symbol.text
            return ("number", float(int(text, 16)) if text[:2] in {"0x", "0X"} else float(text))
        if symbol.kind in {"string", "pattern"}:
            return (symbol.kind, symbol.text)
        if symbol.kind == "call":
            return ("call", symbol.text, self._list(")"))
        if symbol.kind == "name":
            if self._accept("["):
                return ("index", symbol.text, self._list("]"))
            if symbol.text == "length":
                return ("call", "length", [])
            return ("name", symbol.text)
        if symbol.text == "$":
            if operator := self._accept("++", "--"):
                return ("field", ("before", operator, self._primary()))
            return ("field", self._unary() if self._is("-") else self._primary())
        if symbol.text == "(":
            values = self._list(")")
            if not values:
                raise AwkError("syntax error at ')'")
            return ("group", values)
        if symbol.text == "getline":
            target = self._target()
            source = self._primary() if self._accept("<") else None
            return ("getline_file", source, target)
        raise AwkError(f"syntax error at {symbol.text!r}")

    def _target(self) -> Node | None:
        symbol = self._symbols[self._at]
        return self._primary() if symbol.kind == "name" or symbol.text == "$" else None

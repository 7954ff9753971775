"""`$((…))`: whole numbers of 64 bits, variables, and the operators of C that shells have."""

import re
from collections.abc import Callable
from functools import partial

_TOKEN = re.compile(
    r"\s*(0[xX][0-9a-fA-F]+|\d+|\$?[A-Za-z_]\w*|<<=|>>=|\*\*|\+\+|--|==|!=|<=|>=|<<|>>|&&|\|\||[-+*/%&|^]=|[-+*/%()<>!=&|^~?:,])"
)
_HALF = 1 << 63  # numbers are of 64 bits and wrap around
_MOST_DIGITS = 19
_PRECEDENCE = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10, "**": 12,
}  # fmt: skip
_ASSIGNING = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="})
_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: int(bool(a or b)),
    "&&": lambda a, b: int(bool(a and b)),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << (b & 63),
    ">>": lambda a, b: a >> (b & 63),
    "**": lambda a, b: pow(a, b, 2 * _HALF) if b >= 0 else 0,
}


class ExpressionError(ValueError):
    """The text is not an expression."""


def evaluate(text: str, variable: Callable[[str], str], assign: Callable[[str, str], None]) -> int:
    """Returns the value, after what the expression assigns. Raises ExpressionError."""
    tokens: list[str] = []
    position = 0
    while text[position:].strip():
        found = _TOKEN.match(text, position)
        if found is None:
            raise ExpressionError("arithmetic syntax error")
        tokens.append(found[1])
        position = found.end()
    if not tokens:
        return 0
    expression = _Expression(tokens, variable, assign)
    value = expression.whole()
    if tokens:
        raise ExpressionError("arithmetic syntax error")
    return value


class _Expression:
    def __init__(
        self, tokens: list[str], variable: Callable[[str], str], assign: Callable[[str, str], None]
    ) -> None:
        self._tokens = tokens
        self._variable = variable
        self._assign = assign
        self._skips = 0  # depth of branches that are not evaluated

    def whole(self) -> int:
        value = self._ternary()
        while self._next() == ",":
            self._tokens.pop(0)
            value = self._ternary()
        return value

    def _next(self) -> str:
        return self._tokens[0] if self._tokens else ""

    def _expect(self, symbol: str) -> None:
        if self._next() != symbol:
            raise ExpressionError("arithmetic syntax error")
        self._tokens.pop(0)

    def _ternary(self) -> int:
        if len(self._tokens) > 1 and _is_name(self._tokens[0]) and self._tokens[1] in _ASSIGNING:
            return self._assignment()
        condition = self._binary(1)
        if self._next() != "?":
            return condition
        self._tokens.pop(0)
        first = self._taken(self._ternary, taken=bool(condition))
        self._expect(":")
        second = self._taken(self._ternary, taken=not condition)
        return first if condition else second

    def _taken(self, branch: Callable[[], int], *, taken: bool) -> int:
        self._skips += not taken
        try:
            return branch()
        finally:
            self._skips -= not taken

    def _assignment(self) -> int:
        name, operator = self._tokens.pop(0), self._tokens.pop(0)
        value = self._ternary()
        if operator != "=":
            value = self._apply(operator[:-1], self._value_of(name), value)
        return self._set(name, value)

    def _set(self, name: str, value: int) -> int:
        if not self._skips:
            self._assign(name.lstrip("$"), str(value))
        return value

    def _binary(self, least: int) -> int:
        value = self._unary()
        while (level := _PRECEDENCE.get(self._next(), 0)) >= least:
            operator = self._tokens.pop(0)
            decided = (operator == "||" and value) or (operator == "&&" and not value)
            right = level if operator == "**" else level + 1
            other = self._taken(partial(self._binary, right), taken=not decided)
            value = self._apply(operator, value, other)
        return value

    def _apply(self, operator: str, value: int, other: int) -> int:
        if operator in {"/", "%"}:
            if other == 0:
                if self._skips:
                    return 0
                raise ExpressionError("divide by zero")
            quotient = abs(value) // abs(other) * (1 if (value < 0) == (other < 0) else -1)
            return _wrapped(quotient if operator == "/" else value - quotient * other)
        return _wrapped(_OPERATIONS[operator](value, other))

    def _unary(self) -> int:
        symbol = self._next()
        if symbol in {"-", "+", "!", "~"}:
            self._tokens.pop(0)
            value = self._unary()
            return _wrapped({"-": -value, "+": value, "!": int(not value), "~": ~value}[symbol])
        if symbol in {"++", "--"}:
            self._tokens.pop(0)
            name = self._tokens.pop(0) if _is_name(self._next()) else ""
            if not name:
                raise ExpressionError("arithmetic syntax error")
            return self._set(name, _wrapped(self._value_of(name) + (1 if symbol == "++" else -1)))
        return self._atom()

    def _atom(self) -> int:
        if not self._tokens:
            raise ExpressionError("arithmetic syntax error")
        symbol = self._tokens.pop(0)
        if symbol == "(":
            value = self.whole()
            self._expect(")")
            return value
        if symbol[0].isdigit():
            return _number(symbol)
        if not _is_name(symbol):
            raise ExpressionError("arithmetic syntax error")
        value = self._value_of(symbol)
        if self._next() in {"++", "--"}:
            self._set(symbol, _wrapped(value + (1 if self._tokens.pop(0) == "++" else -1)))
        return value

    def _value_of(self, name: str) -> int:
        text = self._variable(name.lstrip("$")).strip()
        if not text:
            return 0
        if re.fullmatch(r"[-+]?(0[xX][0-9a-fA-F]+|\d+)", text):
            return _number(text.lstrip("-+")) * (-1 if text[0] == "-" else 1)
        raise ExpressionError("arithmetic syntax error")


def _is_name(symbol: str) -> bool:
    return bool(symbol) and (symbol[0].isalpha() or symbol[0] in "_$")


def _wrapped(value: int) -> int:
    return (value + _HALF) % (2 * _HALF) - _HALF


def _number(digits: str) -> int:
    """Returns a literal, decimal, octal or hexadecimal; one that is too large is the largest."""
    if digits[:2] in {"0x", "0X"}:
        return _wrapped(int(digits[2:18], 16))
    if len(digits) > 1 and digits[0] == "0":
        if not re.fullmatch("[0-7]+", digits):
            raise ExpressionError("arithmetic syntax error")
        return min(int(digits[:30], 8), _HALF - 1)
    return min(int(digits), _HALF - 1) if len(digits) <= _MOST_DIGITS else _HALF - 1

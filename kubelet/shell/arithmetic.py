"""`$((…))`: whole numbers, variables, and the operators that scripts use."""

import re
from collections.abc import Callable

_TOKEN = re.compile(r"\s*(\d+|\$?[A-Za-z_]\w*|\*\*|==|!=|<=|>=|&&|\|\||[-+*/%()<>!])")
_OPEN = "("
_LEVELS = (("||",), ("&&",), ("==", "!="), ("<", ">", "<=", ">="), ("+", "-"), ("*", "/", "%"))
_HALF = 1 << 63  # numbers are of 64 bits and wrap around
_MOST_DIGITS = 19
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
}


class ExpressionError(ValueError):
    """The expression is none."""


def evaluate(text: str, variable: Callable[[str], str]) -> int:
    """The value. Raises ExpressionError."""
    tokens: list[str] = []
    position = 0
    while text[position:].strip():
        found = _TOKEN.match(text, position)
        if found is None:
            raise ExpressionError("syntax error")
        tokens.append(found[1])
        position = found.end()
    value = _level(tokens, 0, variable)
    if tokens:
        raise ExpressionError("syntax error")
    return value


def _level(tokens: list[str], level: int, variable: Callable[[str], str]) -> int:
    if level == len(_LEVELS):
        return _atom(tokens, variable)
    value = _level(tokens, level + 1, variable)
    while tokens and tokens[0] in _LEVELS[level]:
        operator = tokens.pop(0)
        other = _level(tokens, level + 1, variable)
        if operator in {"/", "%"}:
            if other == 0:
                raise ExpressionError("divide by zero")
            quotient = abs(value) // abs(other) * (1 if (value < 0) == (other < 0) else -1)
            value = quotient if operator == "/" else value - quotient * other
        else:
            value = (_OPERATIONS[operator](value, other) + _HALF) % (2 * _HALF) - _HALF
    return value


def _number(digits: str) -> int:
    """A literal; one that is too large is the largest."""
    return min(int(digits), _HALF - 1) if len(digits) <= _MOST_DIGITS else _HALF - 1


def _atom(tokens: list[str], variable: Callable[[str], str]) -> int:
    if not tokens:
        raise ExpressionError("syntax error")
    token = tokens.pop(0)
    if token == _OPEN:
        value = _level(tokens, 0, variable)
        if not tokens or tokens.pop(0) != ")":
            raise ExpressionError("syntax error")
        return value
    if token in {"-", "+", "!"}:
        value = _atom(tokens, variable)
        return {"-": -value, "+": value, "!": int(not value)}[token]
    if token.isdigit():
        return _number(token)
    if token[0] == "$" or token[0].isalpha() or token[0] == "_":
        text = variable(token.lstrip("$")).strip()
        if re.fullmatch(r"[-+]?\d+", text):
            return _number(text.lstrip("-+")) * (-1 if text[0] == "-" else 1)
    raise ExpressionError("syntax error")

"""`expr`: arithmetic and comparisons of old scripts."""

import re

from kubeskew.kubelet.containers.execution.process import Process
from kubeskew.kubelet.containers.tools.regexes import compiled

_LEVELS = (("|",), ("&",), ("<", "<=", "=", "==", "!=", ">=", ">"), ("+", "-"), ("*", "/", "%"), (":",))


async def expr(process: Process, argv: list[str]) -> int:
    """Returns 0 if the value is neither empty nor zero, 1 if it is, 2 for an invalid expression."""
    words = argv[1:]
    try:
        value = _level(words, 0)
        if words:
            raise ValueError("syntax error")
    except (ValueError, IndexError) as error:
        process.complain(f"expr: {error if isinstance(error, ValueError) else 'syntax error'}")
        return 2
    process.out(f"{value}\n")
    return int(value in {"", "0"})


def _level(words: list[str], level: int) -> str:
    if level == len(_LEVELS):
        return _atom(words)
    value = _level(words, level + 1)
    while words and words[0] in _LEVELS[level]:
        operator = words.pop(0)
        value = _apply(operator, value, _level(words, level + 1))
    return value


def _atom(words: list[str]) -> str:
    word = words.pop(0)
    if word == "(":
        value = _level(words, 0)
        if words.pop(0) != ")":
            raise ValueError("syntax error")
        return value
    if word == "length" and words:
        return str(len(words.pop(0)))
    if word == "substr" and len(words) > 2:
        text, start, length = words.pop(0), int(words.pop(0)), int(words.pop(0))
        return text[start - 1 : start - 1 + length] if start > 0 else ""
    if word == "index" and len(words) > 1:
        text, characters = words.pop(0), words.pop(0)
        return str(next((n for n, char in enumerate(text, 1) if char in characters), 0))
    if word == "match" and len(words) > 1:
        return _apply(":", words.pop(0), words.pop(0))
    return word


def _apply(operator: str, left: str, right: str) -> str:
    if operator == "|":
        return left if left not in {"", "0"} else right
    if operator == "&":
        return left if left not in {"", "0"} and right not in {"", "0"} else "0"
    if operator == ":":
        found = compiled(right, extended=False).match(left)
        if re.search(r"\\\(", right):
            return (found[1] or "") if found is not None else ""
        return str(found.end() if found is not None else 0)
    numeric = re.fullmatch(r"-?\d+", left) and re.fullmatch(r"-?\d+", right)
    if operator in _LEVELS[2]:
        first, second = (int(left), int(right)) if numeric else (left, right)
        order = (first > second) - (first < second)  # type: ignore[operator] # both are of one kind
        holds = {"<": order < 0, "<=": order <= 0, "=": order == 0, "==": order == 0, "!=": order != 0,
                 ">=": order >= 0, ">": order > 0}  # fmt: skip
        return str(int(holds[operator]))
    if not numeric:
        raise ValueError("non-numeric argument")
    one, other = int(left), int(right)
    if operator in {"/", "%"}:
        if other == 0:
            raise ValueError("division by zero")
        quotient = abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
        return str(quotient if operator == "/" else one - quotient * other)
    return str({"+": one + other, "-": one - other, "*": one * other}[operator])

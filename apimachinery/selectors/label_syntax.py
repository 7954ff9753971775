"""The text of label selectors: `app=web,tier in (a,b),!env,n>5`.

Source: k8s.io/apimachinery/pkg/labels/selector.go, 1.36.
"""

import re
from collections.abc import Iterator

from kubeskew.apimachinery.selectors.label_requirements import (
    SETS,
    Operator,
    Requirement,
    SelectorError,
    key_errors,
)

_TOKEN = re.compile(r"[ \t\r\n]*(?:(?P<symbol>==|!=|[=!(),<>])|(?P<word>[^ \t\r\n=!(),<>\0]+))")
_KEYWORDS = {"in", "notin"}
_BINARY = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER,
    "<": Operator.LESS,
}


def parse(text: str) -> Iterator[Requirement]:
    """Yields the requirements in `text`; raises SelectorError."""
    return _Parser(text).parse()


class _Parser:
    """Reads requirements joined by commas.

    A token is a word or a symbol; the end of the text is the empty symbol. `in` and `notin` are operators
    only where an operator may stand.
    """

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._position = 0

    def parse(self) -> Iterator[Requirement]:
        while self._peek() != ("", False):
            found, is_word = self._peek()
            if not is_word and found != "!":
                raise SelectorError(f"found '{found}', expected: !, identifier, or 'end of string'")
            try:
                yield self._requirement()
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            found, is_word = self._next()
            if is_word or found not in ("", ","):
                raise SelectorError(f"found '{found}', expected: ',' or 'end of string'")
            if not found:
                return
            following, is_word = self._peek()
            if not is_word and following != "!":
                raise SelectorError(f"found '{following}', expected: identifier after ','")

    def _peek(self) -> tuple[str, bool]:
        return self._tokens[self._position]

    def _next(self) -> tuple[str, bool]:
        self._position += 1
        return self._tokens[self._position - 1]

    def _requirement(self) -> Requirement:
        key, is_word = self._next()
        absent = (key, is_word) == ("!", False)
        if absent:
            key, is_word = self._next()
        if not is_word:
            raise SelectorError(f"found '{key}', expected: identifier")
        errors = key_errors(key, "<nil>")
        if errors:
            raise SelectorError(str(errors[0]))
        if absent:
            return Requirement.checked(key, Operator.DOES_NOT_EXIST, ())
        if self._peek() in (("", False), (",", False)):
            return Requirement.checked(key, Operator.EXISTS, ())
        operator = self._operator()
        values = self._values() if operator in SETS else self._exact_value()
        return Requirement.checked(key, operator, sorted(set(values)))

    def _operator(self) -> Operator:
        found, is_word = self._next()
        if found not in _BINARY or (is_word and found not in _KEYWORDS):
            raise SelectorError(f"found '{found}', expected: in, notin, =, ==, !=, gt, lt")
        return _BINARY[found]

    def _values(self) -> list[str]:
        """Reads `(a, b)`; nothing between commas is the empty value."""
        found, is_word = self._next()
        if is_word or found != "(":
            raise SelectorError(f"found '{found}' expected: '('")
        found, is_word = self._peek()
        if not is_word and found not in (",", ")"):
            raise SelectorError(f"found '{found}', expected: ',', ')' or identifier")
        values, pending = [], ""
        while True:
            found, is_word = self._next()
            if is_word:
                pending = found
                found, is_word = self._next()
                if is_word or found not in (",", ")"):
                    raise SelectorError(f"found '{found}', expected: ',' or ')'")
            elif found not in (",", ")"):
                raise SelectorError(f"found '{found}', expected: ',', or identifier")
            values.append(pending)
            pending = ""
            if found == ")":
                return values

    def _exact_value(self) -> list[str]:
        if self._peek() in (("", False), (",", False)):
            return [""]
        found, is_word = self._next()
        if not is_word:
            raise SelectorError(f"found '{found}', expected: identifier")
        return [found]


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Yields each token with whether it is a word, then the end."""
    position = 0
    while (found := _TOKEN.match(text, position)) is not None:
        yield found["symbol"] or found["word"], found["word"] is not None
        position = found.end()
    yield "", False

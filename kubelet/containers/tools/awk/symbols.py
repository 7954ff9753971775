"""Splits awk programs into symbols."""

import re
from typing import NamedTuple

_SYMBOL = re.compile(
    r"[ \t\r]*(?:(?P<newline>\\\n)|(?P<comment>#[^\n]*)"
    r"|(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
    r'|(?P<string>"(?:\\.|[^"\\\n])*")'
    r"|(?P<call>[A-Za-z_]\w*\()|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>\*\*=|\*\*|&&|\|\||\+\+|--|[-+*/%^]=|[=!<>]=|!~|>>|[-+*/%^=<>!~?:,;{}()\[\]$|\n]))",
    re.DOTALL,
)
_KEYWORDS = frozenset({
    "BEGIN", "END", "function", "func", "if", "else", "while", "for", "do", "break", "continue", "next",
    "nextfile", "exit", "return", "delete", "in", "getline", "print", "printf",
})  # fmt: skip
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "\\": "\\",
    '"': '"',
    "/": "/",
}


class AwkError(ValueError):
    """The program does not parse."""


class Symbol(NamedTuple):
    kind: str  # number, string, pattern, call, name, keyword, sign, or end
    text: str


def unescaped(text: str) -> str:
    """Returns the characters of a string between its quotes."""

    def replaced(found: re.Match[str]) -> str:
        escape = found[1]
        if escape[0] in "01234567":
            return chr(int(escape, 8) & 0xFF)
        return "" if escape == "\n" else _ESCAPES.get(escape, "\\" + escape)

    return re.sub(r"\\([0-7]{1,3}|.)", replaced, text, flags=re.DOTALL)


def symbols_of(text: str) -> list[Symbol]:
    found: list[Symbol] = []
    at = 0
    while at < len(text):
        before = found[-1] if found else Symbol("", "")
        blank = re.compile(r"[ \t\r]*/").match(text, at)
        if blank is not None and _may_begin_pattern(before):
            end = blank.end()
            while end < len(text) and text[end] != "/":
                end += 2 if text[end] == "\\" else 1
            if end >= len(text):
                raise AwkError("unterminated regexp")
            found.append(Symbol("pattern", text[blank.end() : end].replace("\\/", "/")))
            at = end + 1
            continue
        match = _SYMBOL.match(text, at)
        if match is None:
            if not text[at:].strip(" \t\r"):
                break
            raise AwkError(f"syntax error near {text[at : at + 10]!r}")
        at = match.end()
        kind = match.lastgroup or ""
        if kind in {"newline", "comment"}:
            continue
        found.append(_symbol(kind, match[kind]))
        if kind == "call":
            at -= 1
            if found[-1].kind == "call":
                at += 1
    return [*found, Symbol("sign", "\n"), Symbol("end", "")]


def _symbol(kind: str, text: str) -> Symbol:
    if kind == "string":
        return Symbol("string", unescaped(text[1:-1]))
    if kind == "call" and text[:-1] in _KEYWORDS:
        return Symbol("keyword", text[:-1])
    if kind == "call":
        return Symbol("call", text[:-1])
    if kind == "name" and text in _KEYWORDS:
        return Symbol("keyword", "function" if text == "func" else text)
    return Symbol(kind, text)


def _may_begin_pattern(before: Symbol) -> bool:
    if before.kind in {"number", "string", "name", "pattern"}:
        return False
    return not (before.kind == "sign" and before.text in {")", "]", "$", "++", "--"})

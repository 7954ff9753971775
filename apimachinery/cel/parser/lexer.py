"""Splits a text into tokens, and reports like ANTLR what is no token.

Source: the lexis of github.com/google/cel-go/parser/gen/CEL.g4 and ANTLR 4's lexer, which skips one character
behind what it could not recognise.
"""

import re
from dataclasses import dataclass

from kubeskew.apimachinery.cel.errors import Issue

EOF = "EOF"
_ESCAPE = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_QUOTED = (
    rf'"""(?:{_ESCAPE}|[^\\])*?"""|\'\'\'(?:{_ESCAPE}|[^\\])*?\'\'\''
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*"|\'(?:{_ESCAPE}|[^\\\'\n\r])*\''
)
_RAW = r'[rR](?:"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|"[^"\n\r]*"|\'[^\'\n\r]*\')'
_SIGNS = (
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/", "%",
)  # fmt: skip
_KEYWORDS = frozenset({"in", "true", "false", "null"})
_TOKEN = re.compile(
    r"(?P<HIDDEN>[\t \r\n\f]+|//[^\n]*)"
    rf"|(?P<BYTES>[bB](?:{_QUOTED}|{_RAW}))|(?P<STRING>{_QUOTED}|{_RAW})"
    r"|(?P<NUM_FLOAT>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<NUM_UINT>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])|(?P<NUM_INT>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<IDENTIFIER>[A-Za-z_][A-Za-z0-9_]*)|(?P<ESC_IDENTIFIER>`[A-Za-z0-9_.\-/ ]+`)"
    rf"|(?P<SIGN>{'|'.join(map(re.escape, _SIGNS))})"
)
_ESCAPED = re.compile(_ESCAPE)
_NAME = re.compile(r"[A-Za-z0-9_.\-/ ]*")


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is ANTLR's name of the token, for keywords and signs their text."""

    kind: str
    text: str
    start: int


def tokenize(source: str) -> tuple[list[Token], list[Issue]]:
    """Returns the tokens of `source`, ending with EOF, and the issues."""
    tokens: list[Token] = []
    issues: list[Issue] = []
    position, end = 0, len(source)
    while position < end:
        found = _TOKEN.match(source, position)
        if found is None:
            failure = _failure(source, position)
            issues.append(Issue(position, _unrecognised(source[position : failure + 1])))
            position = failure + 1
            continue
        kind, text = found.lastgroup or "", found.group()
        if kind == "SIGN" or (kind == "IDENTIFIER" and text in _KEYWORDS):
            kind = text
        if kind != "HIDDEN":
            tokens.append(Token(kind, text, position))
        position = found.end()
    tokens.append(Token(EOF, "<EOF>", end))
    return tokens, issues


def _unrecognised(text: str) -> str:
    shown = text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return f"Syntax error: token recognition error at: '{shown}'"


def _failure(source: str, start: int) -> int:
    """Returns the position at which no token that begins at `start` can go on.

    It is the source's length if only the token's end is missing.
    """
    char = source[start]
    if char in "&|=":
        return start + 1
    if char == "`":
        found = _NAME.match(source, start + 1)
        return found.end() if found else start
    if char not in "\"'":
        return start
    position = start + 1
    while position < len(source) and source[position] not in "\r\n" + char:
        if source[position] != "\\":
            position += 1
            continue
        escaped = _ESCAPED.match(source, position)
        if escaped is None:
            return _broken_escape(source, position)
        position = escaped.end()
    return position


def _broken_escape(source: str, position: int) -> int:
    """Returns the position of the first character that cannot belong to the escape at `position`."""
    for length in range(2, 11):
        part = source[position : position + length]
        if len(part) < length:
            return len(source)
        if not any(_ESCAPED.fullmatch(part + filler) for filler in ("", *("0" * n for n in range(1, 9)))):
            return position + length - 1
    return position + 1

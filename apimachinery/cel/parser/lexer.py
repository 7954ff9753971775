"""The lexer of CEL: splits a text into tokens, reports the rest as ANTLR does, and reads literals.

Literals are numbers with their ranges, strings and bytes with their escapes.

Sources: the lexis of github.com/google/cel-go/parser/gen/CEL.g4 and ANTLR 4's lexer, which skips one
character behind a part that it could not recognise; github.com/google/cel-go/parser (parser.go, unescape.go).
"""

import re
from dataclasses import dataclass

from kubeskew.apimachinery.cel.errors import Issue
from kubeskew.apimachinery.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt

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
_SIMPLE = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_ESCAPE_PARTS = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2}))"
)


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is ANTLR's name of the token, for keywords and signs their text."""

    kind: str
    text: str
    start: int
    before: str = ""  # blanks and comments


def tokenize(source: str) -> tuple[list[Token], list[Issue]]:
    """The tokens end with EOF."""
    tokens: list[Token] = []
    issues: list[Issue] = []
    position, end, hidden = 0, len(source), ""
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
        if kind == "HIDDEN":
            hidden += text
        else:
            tokens.append(Token(kind, text, position, hidden))
            hidden = ""
        position = found.end()
    tokens.append(Token(EOF, "<EOF>", end, hidden))
    return tokens, issues


def _unrecognised(text: str) -> str:
    shown = text.replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
    return f"Syntax error: token recognition error at: '{shown}'"


def _failure(source: str, start: int) -> int:
    """The position at which no token that begins at `start` can go on, or the source's length if only the
    token's end is missing.
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
    """First position whose character cannot belong to the escape at `position`."""
    for length in range(2, 11):
        part = source[position : position + length]
        if len(part) < length:
            return len(source)
        if not any(_ESCAPED.fullmatch(part + filler) for filler in ("", *("0" * n for n in range(1, 9)))):
            return position + length - 1
    return position + 1


def integer(text: str) -> int:
    """Raises ValueError beyond 64 bits."""
    value = int(text, 16) if "x" in text else int(text)
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError("invalid int literal")
    return value


def unsigned(text: str) -> UInt:
    digits = text[:-1]
    value = int(digits, 16) if digits.startswith("0x") else int(digits)
    if value > UINT_MAX:
        raise ValueError("invalid uint literal")
    return UInt(value)


def double(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("invalid double literal")
    return value


def string(text: str) -> str:
    content, raw = _unquoted(text)
    return content if raw else _ESCAPE_PARTS.sub(_character, content)


def octets(text: str) -> bytes:
    r"""In a literal such as `b"a"`, `\x` and octal escapes are single bytes."""
    content, raw = _unquoted(text)
    if raw:
        return content.encode()
    parts, position = [], 0
    for found in _ESCAPE_PARTS.finditer(content):
        parts.append(content[position : found.start()].encode())
        parts.append(_byte(found))
        position = found.end()
    parts.append(content[position:].encode())
    return b"".join(parts)


def _unquoted(text: str) -> tuple[str, bool]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    return text[quotes:-quotes], raw


def _byte(found: "re.Match[str]") -> bytes:
    _, hexadecimal, short, long, octal = found.groups()
    if short or long:
        raise ValueError("unable to unescape string")
    if hexadecimal:
        return bytes([int(hexadecimal, 16)])
    if octal:
        return bytes([int(octal, 8)])
    return _character(found).encode()


def _character(found: "re.Match[str]") -> str:
    simple, *codes, octal = found.groups()
    if simple is not None:
        return _SIMPLE[simple]
    code = int(octal, 8) if octal else int(next(code for code in codes if code), 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(code)

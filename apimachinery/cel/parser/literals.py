"""Reads literals: numbers with their ranges, strings and bytes with their escapes.

Source: github.com/google/cel-go/parser (parser.go, unescape.go).
"""

import re

from kubeskew.apimachinery.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt

_SIMPLE = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\'\"`?])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2}))"
)


def integer(text: str) -> int:
    """Returns the number; raises ValueError beyond 64 bits."""
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
    return content if raw else _ESCAPE.sub(_character, content)


def octets(text: str) -> bytes:
    r"""Returns the bytes of a literal such as `b"a"`; in it `\x` and octal escapes are single bytes."""
    content, raw = _unquoted(text)
    if raw:
        return content.encode()
    parts, position = [], 0
    for found in _ESCAPE.finditer(content):
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

"""The strings extension by version, and Kubernetes' regex library.

Source: github.com/google/cel-go/ext/strings.go (version 2 in Kubernetes) and
k8s.io/apiserver/pkg/cel/library/regex.go.
"""

from collections.abc import Sequence
from typing import Any

from kubeskew.apimachinery.cel.errors import EvaluationError
from kubeskew.apimachinery.cel.library.formatting import format_string
from kubeskew.apimachinery.cel.library.regular import compiled
from kubeskew.apimachinery.cel.overloads import Overload, overload

_SPACES = (  # Unicode's White_Space
    " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_QUOTED = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\",
    '"': '\\"',
}  # fmt: skip


def _char_at(text: str, position: int) -> str:
    if not 0 <= position <= len(text):
        raise EvaluationError(f"index out of range: {position}")
    return text[position : position + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if part == "":
        return offset
    if not 0 <= offset <= len(text):
        raise EvaluationError(f"index out of range: {offset}")
    return text.find(part, offset)


def _last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if offset is None:
        return len(text) if part == "" else text.rfind(part)
    if part == "":
        return offset
    if not 0 <= offset <= len(text):
        raise EvaluationError(f"index out of range: {offset}")
    return text.rfind(part, 0, offset + len(part))


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for position in (start, *(() if end is None else (end,))):
        if not 0 <= position <= len(text):
            raise EvaluationError(f"index out of range: {position}")
    return text[start:end]


def _lower_ascii(text: str) -> str:
    return "".join(char.lower() if "A" <= char <= "Z" else char for char in text)


def _upper_ascii(text: str) -> str:
    return "".join(char.upper() if "a" <= char <= "z" else char for char in text)


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    return text.replace(old, new, max(limit, -1))


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if limit == 1:
        return [text]
    if separator == "":
        parts = list(text)
        cut = limit - 1
        return parts if limit < 0 or limit >= len(parts) else [*parts[:cut], "".join(parts[cut:])]
    return text.split(separator, -1 if limit < 0 else limit - 1)


def _join(items: Sequence[Any], separator: str = "") -> str:
    for item in items:
        if not isinstance(item, str):
            raise EvaluationError("no such overload")
    return separator.join(items)


def _quote(text: str) -> str:
    return '"' + "".join(_QUOTED.get(char, char) for char in text) + '"'


_VERSION_0: tuple[Overload, ...] = (
    overload("string.charAt(int) string", _char_at),
    overload("string.indexOf(string) int", _index_of),
    overload("string.indexOf(string,int) int", _index_of),
    overload("string.lastIndexOf(string) int", _last_index_of),
    overload("string.lastIndexOf(string,int) int", _last_index_of),
    overload("string.lowerAscii() string", _lower_ascii),
    overload("string.upperAscii() string", _upper_ascii),
    overload("string.replace(string,string) string", _replace),
    overload("string.replace(string,string,int) string", _replace),
    overload("string.split(string) list(string)", _split),
    overload("string.split(string,int) list(string)", _split),
    overload("string.substring(int) string", _substring),
    overload("string.substring(int,int) string", _substring),
    overload("string.trim() string", lambda text: text.strip(_SPACES)),
    overload("list(string).join() string", _join),
    overload("list(string).join(string) string", _join),
)
# Version 1 brought `format` and `quote`, version 2 joins lists of any type at run time; both since 1.29.
_VERSION_2: tuple[Overload, ...] = (
    overload("string.format(list(dyn)) string", format_string, "string_format"),
    overload("strings.quote(string) string", _quote, "strings_quote"),
)


def strings(version: int) -> tuple[Overload, ...]:
    return _VERSION_0 if version == 0 else (*_VERSION_0, *_VERSION_2)


def _find(text: str, pattern: str) -> str:
    found = compiled(pattern).search(text)
    return str(found.group(0)) if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match.group(0) for match in compiled(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


REGEX: tuple[Overload, ...] = (
    overload("string.find(string) string", _find),
    overload("string.findAll(string) list(string)", _find_all),
    overload("string.findAll(string,int) list(string)", _find_all),
)

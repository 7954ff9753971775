"""Reads JSON paths that name one field of a schema: `.spec.replicas`, `.labels['a.b']`.

Source: apiextensions-apiserver pkg/apiserver/schema/cel/validation.go (ValidFieldPath), 1.36.
"""

import re
from collections.abc import Iterator

from kubeskew.apimachinery.objects import Object

_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|[.\[\]]|[^.\[\]']+|'.*", re.DOTALL)
_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\",
}  # fmt: skip


class FieldPathError(ValueError):
    """A path that names no field; the text is upstream's."""


def read_field_path(path: str, props: Object, *, brackets: bool = True) -> tuple[str, Object]:
    """Returns the field path as errors show it, without a leading dot, and the schema of the field."""
    tokens = iter(_TOKEN.findall(path))
    shown, node = "", props
    for step in tokens:
        if step == "[":
            if not brackets:
                raise FieldPathError("array notation is not allowed")
            shown, node = _step(shown, node, _quoted(tokens))
            closing = _next(tokens)
            if closing != "]":
                raise FieldPathError(f"expected ] but got {closing}")
        elif step == ".":
            shown, node = _step(shown, node, _next(tokens))
        else:
            raise FieldPathError(f"expected [ or . but got: {step}")
    return shown, node


def _next(tokens: Iterator[str]) -> str:
    step = next(tokens, None)
    if step is None:
        raise FieldPathError("unexpected end of JSON path")
    return step


def _quoted(tokens: Iterator[str]) -> str:
    token = _next(tokens)
    if len(token) < 2 or token[0] != "'" or token[-1] != "'":
        raise FieldPathError(f"expected single quoted string but got {token}")

    def unescape(found: re.Match[str]) -> str:
        if found[1] not in _ESCAPES:
            raise FieldPathError(f"invalid string literal: invalid escape char {found[0]}")
        return _ESCAPES[found[1]]

    return re.sub(r"\\(.)", unescape, token[1:-1])


def _step(shown: str, node: Object, name: str) -> tuple[str, Object]:
    properties, extra = node.get("properties"), node.get("additionalProperties")
    if properties:
        below = properties.get(name)
        if below is None:
            raise FieldPathError("does not refer to a valid field")
        return (f"{shown}.{name}" if shown else name), below
    if extra is not None:
        return f"{shown}[{name}]", extra if isinstance(extra, dict) else {}
    raise FieldPathError("does not refer to a valid field")

"""Reads YAML bodies as Go does (sigs.k8s.io/yaml over goyaml.v2): the value that the same JSON would give.

Differences to PyYAML that matter: times stay text, keys become text, `1e3` is a number, no sexagesimals, and
tags that are not YAML's own are ignored. The value is built from the parser's events without recursion:
PyYAML's own constructor crashes the process on deep nesting.
"""

import base64
import binascii
import copy
import math
import re
from collections.abc import Callable
from typing import Any, Final

import yaml

from kubeskew.apimachinery.go_formats import number, quoted

# Of what is read, so much may come through aliases: less, the more there is (allowedAliasRatio of goyaml).
_FEW_NODES, _MANY_NODES = 400_000, 4_000_000
_MOST_OF_FEW, _MOST_OF_MANY = 0.99, 0.10
MAX_DEPTH: Final = 500  # (goyaml: 10,000) more levels than an object may nest
_MAX_DIGITS = 30  # digits; a longer integer is a float in Go, and slow here

_STRICT = "yaml: unmarshal errors:\n  "
_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_INT = re.compile(r"^[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$")
_FLOAT = re.compile(
    r"^(?:[-+]?(?:(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN))$"
)
_LETTERS = re.compile(r"^[yYnN]$")


class YAMLBodyError(ValueError):
    """The body is not YAML that can be JSON; the text is Go's."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The parser, with Go's rules for plain scalars."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag.rpartition(":")[2] not in {"timestamp", "int", "float"}
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(f"{_TAG}int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}float", _FLOAT, list("-+.0123456789"))
_Loader.add_implicit_resolver(f"{_TAG}bool", _LETTERS, list("yYnN"))


# --- scalars -----------------------------------------------------------------------------------------------


def _integer(text: str) -> int | float:
    text = text.replace("_", "")
    digits = text.lstrip("+-")
    if len(digits) > _MAX_DIGITS:
        return _float(text)
    octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
    value = (-1 if text.startswith("-") else 1) * (int(digits, 8) if octal else int(digits, 0))
    return value if -(2**63) <= value < 2**64 else float(value)


def _float(text: str) -> float:
    value = float(text.replace(".", "", 1) if text[-1].isalpha() else text)
    if math.isnan(value):
        raise YAMLBodyError("json: unsupported value: NaN")
    if math.isinf(value):
        raise YAMLBodyError(f"json: unsupported value: {'+' if value > 0 else '-'}Inf")
    return number(value)


def _boolean(text: str) -> bool:
    return text.lower() in {"y", "yes", "true", "on"}


def _binary(text: str) -> str:
    try:
        return base64.b64decode(text).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        raise YAMLBodyError("yaml: !!binary value contains invalid base64 data") from None


_SCALARS: dict[str, Callable[[str], Any]] = {
    f"{_TAG}int": _integer,
    f"{_TAG}float": _float,
    f"{_TAG}bool": _boolean,
    f"{_TAG}null": lambda _: None,
    f"{_TAG}binary": _binary,
}


# --- maps and lists ----------------------------------------------------------------------------------------

_NO_KEY = object()
_NULL_KEY = object()
_MERGE_KEY = object()


class _Map:
    def __init__(self) -> None:
        self.value: dict[str, Any] = {}
        self.key: Any = _NO_KEY
        self.merged: list[dict[str, Any]] = []

    def finish(self) -> dict[str, Any]:
        """Adds the keys from `<<`, which the map's own keys override; of several sources the first wins."""
        if self.merged:
            own = dict(self.value)
            self.value.clear()  # kept as the same object: an anchor may refer to it
            for source in reversed(self.merged):
                self.value.update(source)
            self.value.update(own)
        return self.value


class _Builder:
    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._open: list[_Map | list[Any]] = []
        self._names: list[str | None] = []  # anchors of open maps and lists
        self._anchors: dict[str, Any] = {}
        self._sizes: dict[str, int] = {}  # of anchored values, in nodes, those behind aliases included
        self._starts: list[int] = []  # nodes that were read before an open map or list
        self._nodes = 1  # the document
        self._aliased = 0
        self._root: Any = None
        self.repeated: list[str] = []

    def read(self) -> Any:
        """Reads the first document alone."""
        while True:
            event = self._loader.get_event()
            if event is None or isinstance(event, yaml.DocumentEndEvent | yaml.StreamEndEvent):
                return self._root
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, yaml.MappingStartEvent):
                self._begin(_Map(), event)
            elif isinstance(event, yaml.SequenceStartEvent):
                self._begin([], event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._end()
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event)

    def _begin(self, holder: _Map | list[Any], event: Any) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise YAMLBodyError("yaml: exceeded max depth")
        top = self._open[-1] if self._open else None
        if isinstance(top, _Map) and top.key is _NO_KEY:
            raise YAMLBodyError("yaml: invalid map key: a map or a sequence")
        self._open.append(holder)
        self._names.append(event.anchor)
        self._starts.append(self._nodes)
        self._nodes += 1

    def _end(self) -> None:
        holder, name, start = self._open.pop(), self._names.pop(), self._starts.pop()
        value = holder.finish() if isinstance(holder, _Map) else holder
        if name:
            self._anchors[name], self._sizes[name] = value, self._nodes - start
        self._put(value)

    def _scalar(self, event: Any) -> None:
        top = self._open[-1] if self._open else None
        tag = event.tag
        if tag is None or tag == "!":
            implicit = event.implicit if tag is None else (False, True)
            tag = self._loader.resolve(yaml.ScalarNode, event.value, implicit)
        if isinstance(top, _Map) and top.key is _NO_KEY and tag == _MERGE:
            top.key = _MERGE_KEY
            return
        self._nodes += 1
        make = _SCALARS.get(tag)
        value = make(event.value) if make is not None else event.value
        if event.anchor:
            self._anchors[event.anchor], self._sizes[event.anchor] = value, 1
        if isinstance(top, _Map) and top.key is _NO_KEY:
            top.key = _key(value)
            if top.key in top.value:
                line = event.start_mark.line + 1
                self.repeated.append(f'line {line}: key "{event.value}" already set in map')
            return
        self._put(value)

    def _put(self, value: Any) -> None:
        if not self._open:
            self._root = value
            return
        top = self._open[-1]
        if isinstance(top, list):
            top.append(value)
            return
        if top.key is _MERGE_KEY:
            top.merged += self._sources(value)
        elif top.key is _NULL_KEY:
            raise YAMLBodyError(
                f"unsupported map key of type: %!s(<nil>), key: <nil>, value: {_shown(value)}"
            )
        else:
            top.value[top.key] = value
        top.key = _NO_KEY

    def _sources(self, value: Any) -> list[dict[str, Any]]:
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            raise YAMLBodyError("yaml: map merge requires map or sequence of maps as the value")
        return sources

    def _alias(self, event: Any) -> None:
        name = event.anchor
        if name in self._names:
            raise YAMLBodyError(f"yaml: anchor '{name}' value contains itself")
        if name not in self._anchors:
            raise YAMLBodyError(f"yaml: unknown anchor '{name}' referenced")
        self._nodes += 1 + self._sizes[name]
        self._aliased += self._sizes[name]
        if self._aliased > 100 and self._nodes > 1000 and self._aliased > self._nodes * _most(self._nodes):
            raise YAMLBodyError("yaml: document contains excessive aliasing")
        value = copy.deepcopy(self._anchors[name])  # nothing is shared
        top = self._open[-1] if self._open else None
        if isinstance(top, _Map) and top.key is _NO_KEY:
            top.key = _key(value)
        else:
            self._put(value)


def _most(nodes: int) -> float:
    """Returns the part of so many nodes that may come through aliases."""
    part = min(max((nodes - _FEW_NODES) / (_MANY_NODES - _FEW_NODES), 0), 1)
    return _MOST_OF_FEW - (_MOST_OF_FEW - _MOST_OF_MANY) * part


def _key(key: Any) -> Any:
    if key is None:
        return _NULL_KEY
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str | int | float):
        return str(key)
    raise YAMLBodyError("yaml: invalid map key: a map or a sequence")


def _shown(value: Any) -> str:
    """Go's `%#v` of a value."""
    if isinstance(value, dict):
        inner = ", ".join(f"{quoted(name)}:{_shown(item)}" for name, item in value.items())
        return f"map[interface {{}}]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_shown, value))}}}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else quoted(value) if isinstance(value, str) else str(value)


def load(body: bytes) -> tuple[Any, list[str]]:
    """The first document of `body`, and the strict errors of repeated keys; raises YAMLBodyError."""
    try:
        loader = _Loader(body.decode("utf-8", "replace"))
        try:
            builder = _Builder(loader)
            value = builder.read()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise YAMLBodyError(_text(error)) from None
    except YAMLBodyError:
        raise
    except (ValueError, OverflowError, TypeError) as error:
        raise YAMLBodyError(f"yaml: {error}") from None
    repeated = [_STRICT + "\n  ".join(builder.repeated)] if builder.repeated else []
    return value, repeated


def lines_of(text: str) -> list[str]:
    """Splits a strict error into the lines that warnings show."""
    return text.removeprefix(_STRICT).split("\n  ") if text.startswith(_STRICT) else [text]


def _text(error: yaml.YAMLError) -> str:
    """Adds the line number that goyaml would have to libyaml's error."""
    if isinstance(error, yaml.reader.ReaderError):
        return f"yaml: {error.reason}"
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"yaml: {error}"
    step = 1 if isinstance(error, yaml.scanner.ScannerError) else 0
    for mark in (error.context_mark, error.problem_mark):
        if mark is not None and mark.line:
            return f"yaml: line {mark.line + step}: {error.problem}"
    return f"yaml: {error.problem}"

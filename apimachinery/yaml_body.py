"""YAML bodies as Go reads them (sigs.k8s.io/yaml over goyaml.v2): the value that the same JSON would give.

Differences to PyYAML that matter: times stay text, keys become text, `1e3` is a number, no sexagesimals.
"""

import re
from collections.abc import Hashable
from typing import Any

import yaml

MAX_NODES = 1_000_000  # after aliases are followed: a bound against "billion laughs"

_INT = re.compile(r"^[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$")
_FLOAT = re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$")


class YAMLBodyError(ValueError):
    """The body is not YAML that can be JSON; the text is Go's."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Scalars as Go resolves them; remembers keys that were given twice."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.repeated: list[str] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen and isinstance(key, yaml.ScalarNode):
                line = key.start_mark.line + 1
                self.repeated.append(f'line {line}: key "{key.value}" already set in map')
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                seen.add(key.value)
        found: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return found

    def construct_whole(self, node: yaml.ScalarNode) -> int:
        text = node.value.replace("_", "")
        sign = -1 if text.startswith("-") else 1
        digits = text.lstrip("+-")
        octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
        return sign * (int(digits, 8) if octal else int(digits, 0))

    def construct_decimal(self, node: yaml.ScalarNode) -> float:
        return float(node.value)


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag.rpartition(":")[2] not in {"timestamp", "int", "float"}
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_whole)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_decimal)


def load(body: bytes) -> tuple[Any, list[str]]:
    """The first document of `body`, and the strict errors of keys given twice; raises YAMLBodyError."""
    try:
        loader = _Loader(body.decode("utf-8", "replace"))
        try:
            value = loader.get_data() if loader.check_data() else None
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise YAMLBodyError(_text(error)) from None
    except (ValueError, TypeError) as error:
        raise YAMLBodyError(f"yaml: {error}") from None
    if _size(value, {}) > MAX_NODES:
        raise YAMLBodyError("yaml: document contains excessive aliasing")
    repeated = ["yaml: unmarshal errors:\n  " + "\n  ".join(loader.repeated)] if loader.repeated else []
    return _with_text_keys(value), repeated


def _size(value: Any, known: dict[int, int]) -> int:
    """How many nodes `value` has when every alias is written out."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) not in known:
        known[id(value)] = MAX_NODES  # a value that contains itself has no end
        children = value.values() if isinstance(value, dict) else value
        known[id(value)] = min(MAX_NODES + 1, 1 + sum(_size(item, known) for item in children))
    return known[id(value)]


def _with_text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {_key(key): _with_text_keys(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_text_keys(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, str | int | float):
        return str(key)
    raise YAMLBodyError(f"yaml: invalid map key: {key}")


def _text(error: yaml.YAMLError) -> str:
    """libyaml's problem with the line that goyaml would name."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"yaml: {error}"
    step = 1 if isinstance(error, yaml.scanner.ScannerError) else 0
    for mark in (error.context_mark, error.problem_mark):
        if mark is not None and mark.line:
            return f"yaml: line {mark.line + step}: {error.problem}"
    return f"yaml: {error.problem}"

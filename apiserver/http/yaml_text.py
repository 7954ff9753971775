"""YAML in the style of sigs.k8s.io/yaml over goyaml.v2, quoting included.

libyaml writes; it and goyaml differ only in the styles of texts and the order of keys.
"""

import functools
import re
from typing import Any, Final

import yaml

from kubeskew.apiserver.apply.patching.values import show

_WIDTH: Final = 80
_BOOLEANS_AND_NULLS = {
    *("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"),
    *("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"),
    *("", "~", "null", "Null", "NULL", "<<"),
    *(".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF"),
}
_FLOAT = r"(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_NUMBER = re.compile(rf"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*|{_FLOAT})")
_SIXTIES = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_DAY = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_TIME = re.compile(
    rf"{_DAY}(?:(?:[Tt ]+)[0-9]{{1,2}}:[0-9]{{1,2}}:[0-9]{{1,2}}(?:\.[0-9]*)?(?: *(?:Z|[-+][0-9:]+))?)?"
)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Chooses styles as Go does; a value that stands in two places is written twice."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: Any, value: str) -> Any:
    style = None
    if "\n" in value:
        style = "|"
    elif _is_something_else(value):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _is_something_else(value: str) -> bool:
    """Without quotes, these texts would be read as another type."""
    if value in _BOOLEANS_AND_NULLS:
        return True
    if value[0] not in "+-.0123456789":
        return False
    return any(pattern.fullmatch(value) is not None for pattern in (_NUMBER, _SIXTIES, _TIME))


def _map(dumper: Any, value: dict[str, Any]) -> Any:
    keys = sorted(value, key=functools.cmp_to_key(_order))
    return dumper.represent_mapping("tag:yaml.org,2002:map", [(key, value[key]) for key in keys])


def _float(dumper: Any, value: float) -> Any:
    text = show(value)
    kind = "int" if text.lstrip("-").isdigit() else "float"
    return dumper.represent_scalar(f"tag:yaml.org,2002:{kind}", text)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(dict, _map)
_Dumper.add_representer(float, _float)
_Dumper.add_multi_representer(dict, _map)  # raw fields, which keep the bytes they came as
_Dumper.add_multi_representer(list, yaml.SafeDumper.represent_list)


def _order(left: str, right: str) -> int:
    """Sorts in goyaml's natural order: letters after the rest, numbers by their value."""
    for position, (a, b) in enumerate(zip(left, right, strict=False)):
        if a == b:
            continue
        if a.isalpha() or b.isalpha():
            return (1 if a > b else -1) if a.isalpha() and b.isalpha() else (-1 if b.isalpha() else 1)
        numbers = _digits(left, position), _digits(right, position)
        if numbers[0] != numbers[1]:
            return -1 if numbers[0] < numbers[1] else 1
        return -1 if a < b else 1
    return len(left) - len(right)


def _digits(text: str, start: int) -> tuple[int, int]:
    """The number begins at `start`; its length in digits comes with it."""
    found = re.compile(r"[0-9]*").match(text, start)
    digits = found.group() if found is not None else ""
    return int(digits or 0), len(digits)


def to_yaml(value: Any) -> bytes:
    """Sorts keys and does not indent lists, as upstream."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return text.encode()

"""JSON as Go's encoding/json reads and writes it, where the fast parser differs."""

import json
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import orjson

from kubeskew.apimachinery.golang.decode_errors import Repeated

_INTEGER_DIGITS = 20
_SURROGATES = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
_HTML = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_LEAST, _MOST = 1e-6, 1e21  # what is written without an exponent


def load_repeated(body: bytes) -> Any:
    """Parses slowly, as Go does: not Unicode becomes U+FFFD, of repeated keys the last counts.

    If any object repeats a key, the outermost object is a `Repeated` too, as a mark. `body` must be JSON.

    """
    met: list[Repeated] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = {_clean(key): item for key, item in items}
        if len(found) == len(items):
            return found
        repeated = Repeated.of([(_clean(key), item) for key, item in items])
        met.append(repeated)
        return repeated

    value = _clean_strings(
        json.loads(
            body.decode("utf-8", "replace"),
            object_pairs_hook=pairs,
            parse_constant=_no_constant,
            parse_int=_integer,
        )
    )
    if met and isinstance(value, dict) and not isinstance(value, Repeated):
        return Repeated.of(list(value.items()))
    return value


def _integer(text: str) -> int | float:
    """Integers beyond 64 bits become floats, as with the fast parser."""
    if len(text) > _INTEGER_DIGITS:
        return float(text)
    value = int(text)
    return value if -(2**63) <= value < 2**64 else float(value)


def _no_constant(name: str) -> Any:
    raise ValueError(f"invalid character '{name[0]}' looking for beginning of value")


def _clean(text: str) -> str:
    return text if text.isascii() else text.translate(_SURROGATES)


def _clean_strings(value: Any) -> Any:
    """Lone surrogates are replaced and infinities refused: neither can be stored. Changes `value` in
    place.
    """
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, list):
        value[:] = [_clean_strings(item) for item in value]
    elif isinstance(value, dict):
        for key, item in value.items():
            value[key] = _clean_strings(item)
    elif isinstance(value, float) and math.isinf(value):
        raise ValueError("json: cannot unmarshal number into Go value of type float64")
    return value


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, Repeated):
        return [item for _, item in value.pairs]
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _openings(value: Any) -> float:
    """Objects and lists in `value` nest no deeper than this; it is counted in the value's JSON."""
    try:
        written = orjson.dumps(value)
    except TypeError:  # too deep, or no JSON
        return math.inf
    return sum(map(written.count, (b"{", b"["))) - sum(map(written.count, (b"{}", b"[]"))) + 1


def nests_deeper_than(value: Any, limit: int) -> bool:
    """Needs no stack: it goes through the value level by level."""
    if not isinstance(value, Repeated) and _openings(value) <= limit:
        return False
    level = [value]
    for _ in range(limit):
        level = [item for outer in level for item in _inside(outer) if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def escaped(text: str) -> str:
    for char, escape in _HTML.items():
        if char in text:
            text = text.replace(char, escape)
    return text


def text_of(value: Any) -> str:
    """Writes JSON as Go's `json.Marshal` does."""
    if isinstance(value, dict):
        return f"{{{','.join(f'{text_of(key)}:{text_of(value[key])}' for key in sorted(value))}}}"
    if isinstance(value, list):
        return f"[{','.join(map(text_of, value))}]"
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return escaped(orjson.dumps(value).decode())


def float_text(value: float) -> str:
    """Writes a finite float64 as Go does: 1e-7, 0.000001, 100000000000000000000, 1e+21."""
    if value == 0:
        return "0" if math.copysign(1, value) > 0 else "-0"
    if _LEAST <= abs(value) < _MOST:
        return f"{Decimal(repr(value)).normalize():f}"
    digits, _, power = f"{Decimal(repr(value)).normalize():e}".partition("e")
    return f"{digits}e{int(power):+d}"

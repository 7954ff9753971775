"""Writes JSON as Go's encoding/json: keys in order, HTML's characters escaped, its own form of floats."""

import math
from decimal import Decimal
from typing import Any

import orjson

_HTML = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_LEAST, _MOST = 1e-6, 1e21  # what is written without an exponent


def escaped(text: str) -> str:
    """JSON with the characters escaped that HTML and JavaScript take for their own."""
    for char, escape in _HTML.items():
        if char in text:
            text = text.replace(char, escape)
    return text


def text_of(value: Any) -> str:
    """`json.Marshal` of a JSON value."""
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
    """Returns a finite float64: 1e-7, 0.000001, 100000000000000000000, 1e+21."""
    if value == 0:
        return "0" if math.copysign(1, value) > 0 else "-0"
    if _LEAST <= abs(value) < _MOST:
        return f"{Decimal(repr(value)).normalize():f}"
    digits, _, power = f"{Decimal(repr(value)).normalize():e}".partition("e")
    return f"{digits}e{int(power):+d}"

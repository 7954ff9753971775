"""Copies JSON values, compares them as strictly as Go does, and shows them as Go shows them."""

import math
from decimal import Decimal
from typing import Any

import orjson

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.golang import json_syntax

_TYPES = {
    dict: "map[string]interface {}",
    list: "[]interface {}",
    str: "string",
    bool: "bool",
    int: "int64",
    float: "float64",
}


def load(body: bytes) -> Any:
    """Raises ValueError with the text of Go's scanner."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        json_syntax.check(body)
        raise ValueError(str(error)) from None


def clone(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: clone(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clone(item) for item in value]
    return value


def size(value: Any) -> int:
    """The size is in bytes; raises RecursionError for what nests too deep."""
    try:
        return len(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS))
    except orjson.JSONEncodeError as error:
        raise RecursionError(str(error)) from None


def identity(value: Any) -> Any:
    """Values that are `equal` (structuralschema/values.py) have equal identities, which can be hashed."""
    return (type(value), value) if not isinstance(value, dict | list) else (type(value), show(value))


def type_name(value: Any) -> str:
    """Null is `%!s(<nil>)`, as in upstream's texts."""
    return "%!s(<nil>)" if value is None else _TYPES[type(value)]


def show(value: Any) -> str:
    """Go's `%v` prints values in this form: `map[a:1 b:[x y]]`."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{show(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(show, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _show_float(value)
    return "<nil>" if value is None else str(value)


def show_as_text(value: Any) -> str:
    """Go's `%s` prints values in this form, and marks what is no text."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{show_as_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(show_as_text, value))}]"
    return "%!s(<nil>)" if value is None else f"%!s({type_name(value)}={show(value)})"


def _show_float(value: float) -> str:
    """Go's `%v` prints the shortest digits, with an exponent below 1e-04 and from 1e+06 on."""
    if value == 0 or not math.isfinite(value):
        return repr(value).removesuffix(".0")
    shortest = format(Decimal(repr(value)).normalize(), "e")
    digits, _, exponent = shortest.partition("e")
    power = int(exponent)
    if -4 <= power < 6:
        return repr(value).removesuffix(".0")
    return f"{digits}e{power:+03d}"


class PatchError(errors.StatusError):
    """The patch does not apply. `why` is upstream's own text, which the client may not receive."""

    def __init__(self, error: errors.StatusError, why: str) -> None:
        super().__init__(error.code, error.reason, error.message, error.details)
        self.why = why


def rejected(why: str) -> PatchError:
    """The client receives a 422 without the reason, as from upstream."""
    message = "the server rejected our request due to an error in our request"
    return PatchError(errors.StatusError(422, "Invalid", message, {}), why)


def malformed(why: str) -> PatchError:
    return PatchError(errors.bad_request(why), why)


def failed(why: str) -> PatchError:
    """The client receives a 500 with the reason only, as for upstream's errors without a status."""
    return PatchError(errors.StatusError(500, "", why), why)

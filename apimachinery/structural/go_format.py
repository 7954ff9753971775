"""Numbers as Go writes and understands them."""

import math
import re

_LARGEST_EXACT = 2**53 - 1  # swag: the largest integer that JSON and float64 agree on
_EPSILON = 1e-9
_EXPONENT_FROM = 6  # a power of ten


def number(value: float) -> str:
    """`%v`: 1000000.0 is `1e+06`, 0.1 is `0.1`, 3.0 is `3`."""
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(value, "NaN")
    if value == 0:
        return "0" if math.copysign(1, value) > 0 else "-0"
    digits, _, exponent = f"{value:.16e}".partition("e")
    shortest = repr(value)
    digits = re.sub(r"[^0-9]", "", shortest.partition("e")[0]).strip("0") or "0"
    power = int(exponent)
    sign = "-" if value < 0 else ""
    if power < -4 or power >= _EXPONENT_FROM:
        mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
        return f"{sign}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    whole = digits[: power + 1].ljust(power + 1, "0")
    rest = digits[power + 1 :]
    return f"{sign}{whole}" + (f".{rest}" if rest else "")


def is_whole(value: float) -> bool:
    """Whether go-openapi takes a float64 for an integer (swag.IsFloat64AJSONInteger)."""
    if not math.isfinite(value) or abs(value) > _LARGEST_EXACT:
        return False
    nearest = float(int(value))
    difference = abs(value - nearest)
    if value == nearest or value == math.floor(value):
        return True
    if value == 0 or nearest == 0 or difference < 5e-324:
        return difference < _EPSILON * 5e-324
    return difference / (abs(value) + abs(nearest)) < _EPSILON

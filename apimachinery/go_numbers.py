"""Integers in text as Go's strconv reads them: ASCII digits, a sign, a range, and nothing else."""

import json
import re

_SIGNED = re.compile(r"[+-]?[0-9]+")
_UNSIGNED = re.compile(r"[0-9]+")
_MAX_DIGITS = 20  # leading zeroes aside; Python refuses to read much longer ones


def parse_int(text: str) -> int:
    """`strconv.ParseInt(text, 10, 64)`; raises ValueError with its text."""
    return _parse("ParseInt", _SIGNED, text, -(2**63), 2**63 - 1)


def parse_uint(text: str) -> int:
    """`strconv.ParseUint(text, 10, 64)`; raises ValueError with its text."""
    return _parse("ParseUint", _UNSIGNED, text, 0, 2**64 - 1)


def _parse(function: str, pattern: re.Pattern[str], text: str, least: int, most: int) -> int:
    quoted = json.dumps(text, ensure_ascii=False)
    if pattern.fullmatch(text) is None:
        raise ValueError(f"strconv.{function}: parsing {quoted}: invalid syntax")
    sign = "-" if text[0] == "-" else ""
    digits = text.lstrip("+-").lstrip("0") or "0"
    value = int(sign + digits) if len(digits) <= _MAX_DIGITS else most + 1
    if not least <= value <= most:
        raise ValueError(f"strconv.{function}: parsing {quoted}: value out of range")
    return value

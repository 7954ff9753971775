"""Reads the values of a fault's keys. Each raises FaultError with the key and what was found."""

from collections.abc import Mapping
from typing import Any

from kubeskew.apimachinery.go_durations import parse_duration


class FaultError(ValueError):
    """The fault cannot be used; the text names the key and says what is wrong."""


def number(body: Mapping[str, Any], key: str, default: int | None) -> int | None:
    """Returns a whole number from 1 on."""
    value = body.get(key, default)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise FaultError(f"{key}: expected a whole number from 1 on, found {value!r}")
    return value


def text(body: Mapping[str, Any], key: str) -> str:
    """Returns a text, empty where the key is not given."""
    value = body.get(key, "")
    if not isinstance(value, str):
        raise FaultError(f"{key}: expected a text, found {value!r}")
    return value


def flag(body: Mapping[str, Any], key: str) -> bool:
    """Returns a truth value, false where the key is not given."""
    value = body.get(key, False)
    if not isinstance(value, bool):
        raise FaultError(f"{key}: expected true or false, found {value!r}")
    return value


def is_duration(value: Any) -> bool:
    """Checks whether a value is a duration, without raising."""
    try:
        return isinstance(value, str) and parse_duration(value) >= 0
    except ValueError:
        return False


def duration(value: Any, key: str) -> float:
    """Returns the seconds of a duration such as 200ms or 1m30s."""
    if not is_duration(value):
        raise FaultError(f"{key}: expected a duration such as 200ms or 5s, found {value!r}")
    return parse_duration(value)

"""Reads the values of a fault's keys, and the one key that names its effect.

Each function raises FaultError with the key and the value found.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kubeskew.apimachinery.faults.fault import Effect, Kind
from kubeskew.apimachinery.go_formats import parse_duration

EFFECTS = ("answer", "drop", "delay", "stale", "crash", "outage", "lostLease")
CODES = (400, 401, 403, 404, 409, 410, 422, 429, 500, 503, 504)
RETRY_AFTER = 1  # of a 429, as upstream's filters say it
_PLACES = {Kind.DROP: ("request", "answer", "connection"), Kind.CRASH: ("before", "after")}


class FaultError(ValueError):
    """The fault cannot be used; the text names the key and the mistake."""


def number(body: Mapping[str, Any], key: str, default: int | None) -> int | None:
    """Whole numbers from 1 on; `default` stands for a key that is not given."""
    value = body.get(key, default)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise FaultError(f"{key}: expected a whole number from 1 on, found {value!r}")
    return value


def text(body: Mapping[str, Any], key: str) -> str:
    """Empty where the key is not given."""
    value = body.get(key, "")
    if not isinstance(value, str):
        raise FaultError(f"{key}: expected a text, found {value!r}")
    return value


def flag(body: Mapping[str, Any], key: str) -> bool:
    """False where the key is not given."""
    value = body.get(key, False)
    if not isinstance(value, bool):
        raise FaultError(f"{key}: expected true or false, found {value!r}")
    return value


def is_duration(value: Any) -> bool:
    """Never raises."""
    try:
        return isinstance(value, str) and parse_duration(value) >= 0
    except ValueError:
        return False


def duration(value: Any, key: str) -> float:
    """Seconds of a duration such as 200ms or 1m30s."""
    if not is_duration(value):
        raise FaultError(f"{key}: expected a duration such as 200ms or 5s, found {value!r}")
    return parse_duration(value)


def read_effect(body: Mapping[str, Any]) -> Effect:
    """Reads the key of EFFECTS that is given. Raises FaultError."""
    key = next(key for key in EFFECTS if key in body)
    if key != "answer" and (wrong := [field for field in ("message", "retryAfter") if field in body]):
        raise FaultError(f"{wrong[0]}: only an answer has one")
    return _READERS[key](body[key], body)


def _answer(value: Any, body: Mapping[str, Any]) -> Effect:
    if value not in CODES or isinstance(value, bool):
        raise FaultError(f"answer: expected one of {', '.join(map(str, CODES))}, found {value!r}")
    retry_after = number(body, "retryAfter", RETRY_AFTER if value == 429 else None)
    return Effect(Kind.ANSWER, code=value, message=text(body, "message"), retry_after=retry_after)


def _placed(kind: Kind, value: Any, _body: Mapping[str, Any]) -> Effect:
    places = _PLACES[kind]
    if value not in places:
        raise FaultError(f"{kind}: expected {' or '.join(places)}, found {value!r}")
    return Effect(kind, value)


def _delay(value: Any, _body: Mapping[str, Any]) -> Effect:
    if not isinstance(value, Mapping):
        seconds = duration(value, "delay")
        return Effect(Kind.DELAY, delay=(seconds, seconds))
    if value.keys() != {"min", "max"}:
        raise FaultError("delay: expected a duration such as 200ms, or {min: 10ms, max: 2s}")
    low, high = (duration(value[name], f"delay.{name}") for name in ("min", "max"))
    if low > high:
        raise FaultError(f"delay: min {value['min']} is more than max {value['max']}")
    return Effect(Kind.DELAY, delay=(low, high))


def _stale(value: Any, _body: Mapping[str, Any]) -> Effect:
    if value is not True and not is_duration(value):
        raise FaultError(f"stale: expected true or a duration such as 5s, found {value!r}")
    return Effect(Kind.STALE)


def _outage(value: Any, _body: Mapping[str, Any]) -> Effect:
    if value is True or value == "refuse" or is_duration(value):
        return Effect(Kind.OUTAGE, "refuse")
    if value == "hang":
        return Effect(Kind.OUTAGE, "hang")
    raise FaultError(f"outage: expected true, refuse, hang or a duration such as 5s, found {value!r}")


def _lost_lease(value: Any, _body: Mapping[str, Any]) -> Effect:
    if value is not True:
        raise FaultError(f"lostLease: expected true, found {value!r}")
    return Effect(Kind.ANSWER, code=503, message="the server is currently unable to handle the request")


_READERS: Mapping[str, Callable[[Any, Mapping[str, Any]], Effect]] = {
    "answer": _answer,
    "drop": partial(_placed, Kind.DROP),
    "delay": _delay,
    "stale": _stale,
    "crash": partial(_placed, Kind.CRASH),
    "outage": _outage,
    "lostLease": _lost_lease,
}

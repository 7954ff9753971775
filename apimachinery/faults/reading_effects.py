"""Reads what goes wrong: the one key of a fault that names its effect."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kubeskew.apimachinery.faults.fault import Effect, Kind
from kubeskew.apimachinery.faults.reading_values import FaultError, duration, is_duration, number, text

EFFECTS = ("answer", "drop", "delay", "stale", "crash", "outage", "lostLease")
CODES = (400, 401, 403, 404, 409, 410, 422, 429, 500, 503, 504)
RETRY_AFTER = 1  # of a 429, as upstream's filters say it
_PLACES = {Kind.DROP: ("request", "answer", "connection"), Kind.CRASH: ("before", "after")}


def read_effect(body: Mapping[str, Any]) -> Effect:
    """Returns what goes wrong. Raises FaultError."""
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

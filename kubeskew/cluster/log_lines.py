"""The forms of lines in logs: those of our components, and of real programs klog's text and its JSON.

Source: k8s.io/klog/v2/klog.go, internal/serialize/keyvalues.go, and component-base/logs/json/json.go, 1.36.
"""

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import orjson

_OURS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ")  # as component.py has lines begin
# Month, day and time of the machine, without a year: I1130 00:07:12.123456   12345 server.go:309] …
_KLOG = re.compile(r"[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d{6}) +\d+ [^\s\]]+:\d+\] ")
_JSON = b'{"ts":'
_HEAD = ("ts", "caller", "msg", "v", "logger")
_AHEAD = timedelta(days=1)  # a line cannot be so far ahead: it is of the year before


def is_ours(line: str) -> bool:
    """True of a line that one of our components or a shim wrote, other than a real program's."""
    return _OURS.match(line) is not None


def time_of(line: str, now: datetime) -> str:
    """A line's time, as `2026-11-30T00:07:12.123Z`; empty for a line without one.

    `now` gives klog's lines their year.
    """
    if _OURS.match(line):
        return line[:24]
    if found := _KLOG.match(line):
        month, day, hour, minute, second, micro = map(int, found.groups())
        return _of_year(now, month, day, timedelta(0, second, micro, 0, minute, hour))
    record = _record(line)
    if record is None or not isinstance(record.get("ts"), int | float):
        return ""
    try:
        return _text(datetime.fromtimestamp(record["ts"] / 1000, UTC))
    except (ValueError, OverflowError, OSError):  # in another unit, as a driver's own log may have it
        return ""


def _of_year(now: datetime, month: int, day: int, clock: timedelta) -> str:
    for year in (now.year + 1, now.year, now.year - 1):  # the machine's zone may have another one
        try:
            local = datetime.combine(date(year, month, day), time.min) + clock  # klog names no zone
            moment = local.astimezone(UTC)
        except ValueError:  # the 29th of February, or no date at all
            continue
        if moment <= now + _AHEAD:
            return _text(moment)
    return ""


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def as_text(line: str) -> str:
    """A line of JSON in klog's form, `"MESSAGE" logger="NAME" KEY=VALUE`; others as they are.

    The message of an unstructured line is quoted, too: JSON does not say which it was.
    """
    record = _record(line)
    if record is None:
        return line
    message, is_error = record.get("msg", ""), "v" not in record
    first = ("err", "logger") if is_error else ("logger",)
    values = {key: record[key] for key in first if key in record}
    values |= {key: value for key, value in record.items() if key not in {*_HEAD, *first}}
    words = [_quoted(str(message)), *(f"{key}={_value(value)}" for key, value in values.items())]
    return " ".join(words)


def _record(line: str) -> dict[str, Any] | None:
    content = line.encode()
    if not content.startswith(_JSON):
        return None
    try:
        record: dict[str, Any] = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return record


def _value(value: Any) -> str:
    if (name := _object(value)) or isinstance(value, str):
        return _quoted(name or value)
    if value is None:
        return "null"
    if isinstance(value, list) and value and all(map(_object, value)):
        return f"[{','.join(_quoted(_object(item)) for item in value)}]"
    return orjson.dumps(value).decode()


def _object(value: Any) -> str:
    """The text form of a reference, NAMESPACE/NAME; empty if it is none."""
    if not isinstance(value, dict) or "name" not in value or value.keys() - {"name", "namespace"}:
        return ""
    if not all(isinstance(part, str) for part in value.values()):
        return ""
    return "/".join(filter(None, (value.get("namespace"), value["name"])))


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()

"""Durations as Go reads and writes them: `1h2m`, `-1.5s`, `0`."""

import json
import re

_PART = re.compile(r"([0-9]*+(?:\.[0-9]*+)?)([^.0-9]*+)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_MOST = 2**63 / 1e9  # seconds that 64 bits of nanoseconds hold
_SECOND = 1_000_000_000
_WRITTEN = ((_SECOND, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))


def parse_duration(text: str) -> float:
    """Returns the seconds of a duration; raises ValueError with Go's text."""
    unsigned = text[1:] if text[:1] in ("-", "+") else text
    if unsigned == "0":
        return 0.0
    shown = json.dumps(text, ensure_ascii=False)
    total, position = 0.0, 0
    while position < len(unsigned) or not unsigned:
        found = _PART.match(unsigned, position)
        if found is None or not found[1].strip("."):
            raise ValueError(f"time: invalid duration {shown}")
        if not found[2]:
            raise ValueError(f"time: missing unit in duration {shown}")
        if found[2] not in _UNITS:
            unit = json.dumps(found[2], ensure_ascii=False)
            raise ValueError(f"time: unknown unit {unit} in duration {shown}")
        total += float(found[1]) * _UNITS[found[2]]
        if total > _MOST:
            raise ValueError(f"time: invalid duration {shown}")
        position = found.end()
    return -total if text[0] == "-" else total


def duration_text(nanos: int) -> str:
    """Returns a duration as Go prints it: `1h2m3.5s`, `100ms`, `0s`."""
    sign, size = ("-" if nanos < 0 else ""), abs(nanos)
    if size < _SECOND:
        unit, name = next((pair for pair in _WRITTEN if size >= pair[0]), _WRITTEN[0])
        return f"{sign}{_decimal(size, unit)}{name}"
    minutes, rest = divmod(size, 60 * _SECOND)
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{sign}{head}{_decimal(rest, _SECOND)}s"


def _decimal(size: int, unit: int) -> str:
    whole, rest = divmod(size, unit)
    digits = str(unit + rest)[1:].rstrip("0") if unit > 1 else ""
    return f"{whole}.{digits}" if digits else str(whole)

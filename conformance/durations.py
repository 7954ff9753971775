"""Durations as Go writes them."""

import re
from typing import Any

from kubeskew.conformance.errors import ScenarioError

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s|m|h)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: Any, where: str) -> float:
    """`1m30s`, in seconds. Raises ScenarioError that names `where`."""
    found = list(_DURATION.finditer(str(text)))
    if not found or "".join(match[0] for match in found) != str(text):
        raise ScenarioError(f"{where}: {text!r} is not a duration; write 30s or 1m30s")
    return sum(float(match["number"]) * _UNITS[match["unit"]] for match in found)

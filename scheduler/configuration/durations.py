"""Durations in configurations and flags, as Go writes them."""

import re

_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


class ConfigurationError(ValueError):
    """The file cannot be used; the text says why."""


def parse_duration(text: str) -> float:
    """Seconds of a duration as Go writes it (`1m30s`); raises ConfigurationError."""
    parts = _DURATION.findall(text)
    if text == "0":
        return 0.0
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ConfigurationError(f'time: invalid duration "{text}"')
    return float(sum(float(number) * _UNITS[unit] for number, unit in parts))

"""Prints durations and ages in the few characters that fit a table.

Source: k8s.io/apimachinery/pkg/util/duration/duration.go (HumanDuration), 1.36.
"""

from datetime import timedelta

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY


def human_duration(duration: timedelta) -> str:
    """Shows `duration` in whole seconds, the coarser the longer: 119s, 9m59s, 7h59m, 7d23h, 729d, 7y364d.

    Clocks differ a little: a second in the future is now, more is `<invalid>`.
    """
    seconds = int(duration.total_seconds())  # towards zero, as upstream
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 3 * _HOUR:
        return _parts(seconds, _MINUTE, "m", "s", 1, until=10 * _MINUTE)
    if seconds < 2 * _DAY:
        return _parts(seconds, _HOUR, "h", "m", _MINUTE, until=8 * _HOUR)
    if seconds < 2 * _YEAR:
        return _parts(seconds, _DAY, "d", "h", _HOUR, until=8 * _DAY)
    return _parts(seconds, _YEAR, "y", "d", _DAY, until=8 * _YEAR)


def _parts(seconds: int, unit: int, name: str, finer: str, fine: int, *, until: int) -> str:
    """Returns whole units of `unit` seconds; below `until` with the rest in units of `fine` seconds, if
    not zero."""
    whole, rest = divmod(seconds, unit)
    rest //= fine
    return f"{whole}{name}{rest}{finer}" if rest and seconds < until else f"{whole}{name}"

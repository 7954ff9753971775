"""Lists names in messages."""

from collections.abc import Sequence

_NAMED = 5


def named(names: Sequence[str]) -> str:
    """Returns the names, or of many a few and how many more there are; empty for none."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"

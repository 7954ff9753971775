"""The errors for the user of the command line, each with what to do next, and lists of names."""

from collections.abc import Sequence

_NAMED = 5


class UserError(Exception):
    """Wrong usage: shown as one line, exit status 2."""


class ClusterError(Exception):
    """A run that failed: shown as one line, exit status 1."""


class EndedEarlyError(ClusterError):
    """A run that could not go on, as if it had been interrupted: shown as one line, exit status 130."""


def named(names: Sequence[str]) -> str:
    """Returns the names, or of many a few and how many more there are; empty for none."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"

"""Errors for users of the command line, each with a remedy, and lists of names."""

from collections.abc import Sequence
from pathlib import Path

_NAMED = 5


class UserError(Exception):
    """Wrong usage is shown in one line; the exit status is 2.

    `key` is the key that is wrong at the place of a file that the text begins with.
    """

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key


class ProgramError(UserError):
    """A real program cannot run; it is shown in one line, and the exit status is 2. `reason` does not name
    the `log`.
    """

    def __init__(self, reason: str, log: Path) -> None:
        super().__init__(f"{reason}; see {log}")
        self.reason = reason


class ClusterError(Exception):
    """Failed runs are shown in one line; the exit status is 1."""


class EndedEarlyError(ClusterError):
    """The run could not go on, as if interrupted; it is shown in one line, and the exit status is 130."""


def named(names: Sequence[str]) -> str:
    """Many names are cut to a few and the number of the others; none are an empty text."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"

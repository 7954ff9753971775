"""Ends the process of a component by a panic, a failure that known bugs cause, as Go does."""

import logging
from collections.abc import Callable

EXIT_STATUS = 2  # of a Go program that panics

log = logging.getLogger(__name__)


class Panic(BaseException):
    """A failure that no retry catches. The text is what Go prints behind `panic: `."""


def raised(panic: Panic) -> None:
    """Raises a panic, where no process could be ended."""
    raise panic


def end_by(panic: Panic, end: Callable[[int], None]) -> None:
    """Says in the log what happened, and ends the process at once."""
    log.critical("panic: %s [recovered]", panic)
    end(EXIT_STATUS)

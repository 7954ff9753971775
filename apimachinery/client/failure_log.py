"""Failures of what is tried again and again: each is logged when it is new, and then now and then."""

import logging

from kubeskew.apimachinery.clock import Clock

_REPEAT_SECONDS = 30.0  # client-go's reflectors wait so long at most, and log every attempt


class FailureLog:
    """Logs errors of one activity; the same text again only after half a minute, or once it went well."""

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._last = ""
        self._at = 0.0

    def failed(self, text: str) -> None:
        """Log what went wrong, unless it was just said."""
        now = self._clock.monotonic()
        if text != self._last or now - self._at >= _REPEAT_SECONDS:
            self._last, self._at = text, now
            self._log.error("%s", text)

    def succeeded(self) -> None:
        """Have the next failure logged, whatever it is."""
        self._last = ""

"""Logs failures of what is retried: each when it is new, and then now and then."""

import logging

from kubeskew.apimachinery.clock import Clock

_REPEAT_SECONDS = 30.0  # the longest wait of client-go's reflectors, which log every attempt


class FailureLog:
    """Logs errors of one activity; the same text again only after half a minute, or after a success."""

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._last = ""
        self._at = 0.0

    def failed(self, text: str) -> None:
        """Logs a failure, unless the same was logged just before."""
        now = self._clock.monotonic()
        if text != self._last or now - self._at >= _REPEAT_SECONDS:
            self._last, self._at = text, now
            self._log.error("%s", text)

    def succeeded(self) -> None:
        """Has the next failure logged, whatever it is."""
        self._last = ""

"""Limits how often something is done (golang.org/x/time/rate, which client-go's limits stand on)."""

from kubeskew.apimachinery.clock import Clock


class RateLimit:
    """A bucket of `burst` tokens that fills by `rate` tokens a second; each use takes one."""

    def __init__(self, clock: Clock, rate: float, burst: int) -> None:
        self._clock = clock
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._filled_at = clock.monotonic()

    def allows(self) -> bool:
        """Takes a token if there is one; returns whether there was."""
        self._fill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    async def wait(self) -> None:
        """Takes a token, and returns when it has come; who waits first is first."""
        self._fill()
        self._tokens -= 1
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / self._rate)

    def _fill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now

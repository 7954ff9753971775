"""A clock that follows the event loop, so that tests in virtual time see the time of day go on."""

import asyncio
from datetime import UTC, datetime, timedelta


class LoopClock:
    """The loop's (virtual) time from a fixed start; `ahead`, in seconds, makes it jump."""

    start = datetime(2026, 1, 1, tzinfo=UTC)
    ahead = 0.0

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Seconds of the running loop; none have passed where no loop runs yet."""
        try:
            return asyncio.get_running_loop().time() + self.ahead
        except RuntimeError:
            return self.ahead

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))

"""Work queues: one worker at a time works on an item, and only once if it was added several times meanwhile.

Semantics of k8s.io/client-go/util/workqueue (rate limiting per item: exponential from 5 ms, capped). Rate
limits are those of golang.org/x/time/rate, which client-go uses.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.metrics.series import QueueMeter

Item = TypeVar("Item", bound=Hashable)

BASE_DELAY_SECONDS = 0.005
MAX_DELAY_SECONDS = 1000.0


def backoff_seconds(first: float, doublings: int, longest: float) -> float:
    return float(min(first * 2 ** min(doublings, 40), longest))


class RateLimit:
    """A bucket of `burst` tokens that fills by `rate` tokens a second; each use takes one."""

    def __init__(self, clock: Clock, rate: float, burst: int) -> None:
        self._clock = clock
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._filled_at = clock.monotonic()

    def allows(self) -> bool:
        """False if there is no token to take."""
        self._fill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    async def wait(self) -> None:
        """Takes a token and waits until it has come, in the order of the calls."""
        self._fill()
        self._tokens -= 1
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / self._rate)

    def _fill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now


class ShutDown(Exception):  # noqa: N818 - a state, not an error
    """The queue is shut down and empty: the worker ends."""


class WorkQueue(Generic[Item]):
    """A work queue. All methods are called on one event loop; only `get` waits."""

    def __init__(
        self,
        clock: Clock,
        *,
        base_delay: float = BASE_DELAY_SECONDS,
        max_delay: float = MAX_DELAY_SECONDS,
        meter: QueueMeter | None = None,
    ) -> None:
        self._clock = clock
        self._meter = meter
        self._base_delay = base_delay
        self._max_delay = max_delay
        self._ready: deque[Item] = deque()
        self._dirty: set[Item] = set()  # to be worked on: ready, or added again while in work
        self._working: set[Item] = set()
        self._failures: dict[Item, int] = {}
        self._delayed: dict[Item, tuple[float, asyncio.Task[None]]] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._shutting_down = False
        self._add_worker: Callable[[], None] = _no_worker  # begins one more worker, where some work already

    def __len__(self) -> int:
        """Counts the items that wait for a worker, not those in work or due later."""
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """True if nothing waits, is in work, or is due later."""
        return not (self._dirty or self._working or self._delayed)

    def add(self, item: Item) -> None:
        if self._shutting_down or item in self._dirty:
            return
        if self._meter is not None:
            self._meter.added(item)
        self._dirty.add(item)
        if item not in self._working:
            self._ready.append(item)
            if not self._wake_one():
                self._add_worker()

    def add_after(self, item: Item, seconds: float) -> None:
        """Adds an item later; if added several times, the earliest time counts."""
        if self._shutting_down:
            return
        if self._meter is not None:
            self._meter.postponed()
        if seconds <= 0:
            self.add(item)
            return
        due = self._clock.monotonic() + seconds
        known = self._delayed.get(item)
        if known is not None:
            if known[0] <= due:
                return
            known[1].cancel()
        self._delayed[item] = (due, asyncio.create_task(self._later(item, seconds)))

    def add_rate_limited(self, item: Item) -> None:
        """Adds an item after a delay that doubles with each failure since the last `forget`."""
        failures = self._failures.get(item, 0)
        self._failures[item] = failures + 1
        self.add_after(item, backoff_seconds(self._base_delay, failures, self._max_delay))

    def forget(self, item: Item) -> None:
        self._failures.pop(item, None)

    def requeues(self, item: Item) -> int:
        """Failures of the item since the last `forget`."""
        return self._failures.get(item, 0)

    async def get(self) -> Item:
        """Waits for an item; the caller must call `done` with it. Raises ShutDown."""
        while not self._ready:
            if self._shutting_down:
                raise ShutDown
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                # Woken and cancelled at once: another worker must take the wake-up.
                if waiter.done() and not waiter.cancelled():
                    self._wake_one()
                raise
        item = self._ready.popleft()
        self._working.add(item)
        self._dirty.discard(item)
        if self._meter is not None:
            self._meter.begun(item)
        return item

    def done(self, item: Item) -> None:
        """Ends the work on `item`, successful or not; if it was added meanwhile, it is ready again."""
        self._working.discard(item)
        if self._meter is not None:
            self._meter.ended(item)
        if item in self._dirty:
            self._ready.append(item)
            self._wake_one()

    async def work(self, process: Callable[[Item], Awaitable[None]], workers: int = 1) -> None:
        """Processes items until the queue shuts down, by up to `workers` workers.

        Each works on one item after the other. A further one begins when an item comes for which none waits:
        most queues of a cluster never have more than one.
        """
        more_workers: list[asyncio.Task[None]] = []

        def add_worker() -> None:
            if len(more_workers) < workers - 1:
                more_workers.append(asyncio.create_task(self._work(process)))

        self._add_worker = add_worker
        for _ in range(len(self._ready) - 1):
            add_worker()
        try:
            await self._work(process)
            await asyncio.gather(*more_workers)
        finally:
            self._add_worker = _no_worker
            for task in more_workers:
                task.cancel()
            await asyncio.gather(*more_workers, return_exceptions=True)

    async def _work(self, process: Callable[[Item], Awaitable[None]]) -> None:
        while True:
            try:
                item = await self.get()
            except ShutDown:
                return
            try:
                await process(item)
            finally:
                self.done(item)

    def shut_down(self) -> None:
        """Takes no more items; workers get the items that are ready, then ShutDown."""
        self._shutting_down = True
        for _, task in self._delayed.values():
            task.cancel()
        self._delayed.clear()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    async def _later(self, item: Item, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._delayed.pop(item, None)
        self.add(item)

    def _wake_one(self) -> bool:
        """Wakes a worker that waits for an item; False if there is none."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return True
        return False


def _no_worker() -> None:
    """Does nothing: no worker takes items yet."""

"""Runs a scheduler in each term: from a fresh start until its lease is lost.

Upstream's process ends when it loses the lease (cmd/kube-scheduler/app/server.go, OnStoppedLeading), and the
next one knows nothing of its queue, its backoffs and what it assumed. Nor does the next term here.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kubeskew.scheduler.scheduler import SchedulerService

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric


class Terms:
    """The scheduler of the current term, as `service`; its metrics are those of a collector."""

    def __init__(self, make: Callable[["CollectorRegistry"], SchedulerService], stop: asyncio.Event) -> None:
        """`make` makes a scheduler whose metrics are in a registry; `stop` is set when the process ends.

        Raises what `make` raises.
        """
        self._make = make
        self._stop = stop
        self._begin()

    def _begin(self) -> None:
        from prometheus_client import CollectorRegistry

        self._registry = CollectorRegistry()
        self.service = self._make(self._registry)

    def collect(self) -> Iterator["Metric"]:
        """Yields the metrics of the current term, which count from its start."""
        yield from self._registry.collect()

    describe = collect

    async def lead(self, ended: asyncio.Event) -> None:
        """Schedules until `ended` is set; when the lease was lost, the next term begins with nothing."""
        await self.service.lead(ended)
        if not self._stop.is_set():
            await self.service.stop()
            self._begin()
            self.service.start()

"""The `workqueue_*` metrics: how long items wait and are worked on, by the queue's name.

Source: k8s.io/component-base/metrics/prometheus/workqueue, k8s.io/client-go/util/workqueue/metrics.go, 1.36.
"""

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.metrics.facts import nearest
from kubeskew.apimachinery.metrics.series import Counters, Histograms
from kubeskew.apimachinery.versions import NEWEST_MINOR

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

_LABELS = ["name"]


class QueueMetrics:
    """The metrics of all queues of a process; queues with the same name share what is counted."""

    def __init__(self, registry: "CollectorRegistry", clock: Clock) -> None:
        self.clock = clock
        self.meters: dict[str, QueueMeter] = {}  # of each name the newest
        self.adds = Counters("workqueue_adds", "Items added.", _LABELS, registry)
        self.retries = Counters("workqueue_retries", "Items added for later.", _LABELS, registry)
        self.waited = _seconds("workqueue_queue_duration_seconds", "Seconds that items waited.", registry)
        self.worked = _seconds("workqueue_work_duration_seconds", "Seconds of work on an item.", registry)
        registry.register(self)

    def collect(self) -> "Iterator[Metric]":
        """Yields what queues hold now, for the registry."""
        from prometheus_client.core import GaugeMetricFamily

        depth = GaugeMetricFamily("workqueue_depth", "Items that wait.", labels=_LABELS)
        unfinished = GaugeMetricFamily(
            "workqueue_unfinished_work_seconds",
            "Seconds that all items in work have taken so far.",
            labels=_LABELS,
        )
        longest = GaugeMetricFamily(
            "workqueue_longest_running_processor_seconds",
            "Seconds that the item longest in work has taken so far.",
            labels=_LABELS,
        )
        for name, meter in self.meters.items():
            ages = meter.ages()
            depth.add_metric([name], meter.depth)
            unfinished.add_metric([name], sum(ages))
            longest.add_metric([name], max(ages, default=0.0))
        yield from (depth, unfinished, longest)


def _seconds(name: str, text: str, registry: "CollectorRegistry") -> Histograms:
    return Histograms(name, text, _LABELS, nearest(name, NEWEST_MINOR).buckets, registry)


class QueueMeter:
    """The metrics of one queue, which reports to it what happens to items."""

    def __init__(self, metrics: QueueMetrics, name: str) -> None:
        self._clock = metrics.clock
        self._adds, self._retries = metrics.adds.labels(name), metrics.retries.labels(name)
        self._waited, self._worked = metrics.waited.labels(name), metrics.worked.labels(name)
        self._added_at: dict[Hashable, float] = {}
        self._begun_at: dict[Hashable, float] = {}
        metrics.meters[name] = self

    @property
    def depth(self) -> int:
        """Returns how many items wait."""
        return len(self._added_at)

    def ages(self) -> list[float]:
        """Returns for how many seconds each item has been in work."""
        now = self._clock.monotonic()
        return [now - begun for begun in self._begun_at.values()]

    def added(self, item: Hashable) -> None:
        self._adds.inc()
        self._added_at.setdefault(item, self._clock.monotonic())

    def begun(self, item: Hashable) -> None:
        now = self._clock.monotonic()
        self._waited.observe(now - self._added_at.pop(item, now))
        self._begun_at[item] = now

    def ended(self, item: Hashable) -> None:
        begun = self._begun_at.pop(item, None)
        if begun is not None:
            self._worked.observe(self._clock.monotonic() - begun)

    def postponed(self) -> None:
        self._retries.inc()

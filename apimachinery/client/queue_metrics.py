"""The `workqueue_*` metrics: how long items wait and are worked on, by the queue's name.

Source: k8s.io/component-base/metrics/prometheus/workqueue, k8s.io/client-go/util/workqueue/metrics.go, 1.36.
"""

from collections.abc import Hashable, Mapping
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from kubeskew.apimachinery.clock import Clock

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Counter, Histogram, Metric

_BUCKETS = [1e-8 * 10**step for step in range(10)]


class QueueMetrics:
    """The metrics of all queues of a process; queues with the same name share their series."""

    def __init__(self, registry: "CollectorRegistry", clock: Clock) -> None:
        from prometheus_client import Counter, Gauge, Histogram

        self.clock = clock
        self.meters: dict[str, QueueMeter] = {}  # of each name the newest
        registry.register(_Idle(self.meters))  # comes first, and so is asked first
        label = ["name"]
        self.adds = Counter("workqueue_adds", "Items added.", label, registry=registry)
        self.retries = Counter("workqueue_retries", "Items added for later.", label, registry=registry)
        self.depth = Gauge("workqueue_depth", "Items that wait.", label, registry=registry)
        self.waited = Histogram(
            "workqueue_queue_duration_seconds",
            "Seconds that items waited.",
            label,
            buckets=_BUCKETS,
            registry=registry,
        )
        self.worked = Histogram(
            "workqueue_work_duration_seconds",
            "Seconds of work on an item.",
            label,
            buckets=_BUCKETS,
            registry=registry,
        )
        self.unfinished = Gauge(
            "workqueue_unfinished_work_seconds",
            "Seconds that all items in work have taken so far.",
            label,
            registry=registry,
        )
        self.longest = Gauge(
            "workqueue_longest_running_processor_seconds",
            "Seconds that the item longest in work has taken so far.",
            label,
            registry=registry,
        )


class _Idle:
    """Sees to it that queues in which nothing has been yet have their series, of zeros, when somebody asks.

    A hundred queues have 2,500 values, which take a component's start longer than anything else of metrics.
    """

    def __init__(self, meters: "Mapping[str, QueueMeter]") -> None:
        self._meters = meters

    def describe(self) -> list["Metric"]:
        return []

    def collect(self) -> list["Metric"]:
        """Returns nothing of its own."""
        for meter in self._meters.values():
            _ = meter.series
        return []


class _Series(NamedTuple):
    adds: "Counter"
    retries: "Counter"
    waited: "Histogram"
    worked: "Histogram"


class QueueMeter:
    """The metrics of one queue, which reports to it what happens to items."""

    def __init__(self, metrics: QueueMetrics, name: str) -> None:
        self._metrics = metrics
        self._name = name
        self._clock = metrics.clock
        self._added_at: dict[Hashable, float] = {}
        self._begun_at: dict[Hashable, float] = {}
        metrics.meters[name] = self

    @cached_property
    def series(self) -> _Series:
        """Returns the queue's series, which are there from now on."""
        metrics, name = self._metrics, self._name
        metrics.depth.labels(name).set_function(partial(len, self._added_at))
        metrics.unfinished.labels(name).set_function(lambda: sum(self._ages()))
        metrics.longest.labels(name).set_function(lambda: max(self._ages(), default=0.0))
        counted = metrics.adds.labels(name), metrics.retries.labels(name)
        return _Series(*counted, metrics.waited.labels(name), metrics.worked.labels(name))

    def added(self, item: Hashable) -> None:
        self.series.adds.inc()
        self._added_at.setdefault(item, self._clock.monotonic())

    def begun(self, item: Hashable) -> None:
        now = self._clock.monotonic()
        self.series.waited.observe(now - self._added_at.pop(item, now))
        self._begun_at[item] = now

    def ended(self, item: Hashable) -> None:
        begun = self._begun_at.pop(item, None)
        if begun is not None:
            self.series.worked.observe(self._clock.monotonic() - begun)

    def postponed(self) -> None:
        self.series.retries.inc()

    def _ages(self) -> list[float]:
        now = self._clock.monotonic()
        return [now - begun for begun in self._begun_at.values()]

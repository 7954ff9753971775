"""A whole scheduler over one API client: informers, cache, queue, plugins and the loop, and its terms, from a
fresh start until its lease is lost.

Upstream's process ends when it loses the lease (cmd/kube-scheduler/app/server.go, OnStoppedLeading), and the
next one knows nothing of its queue, its backoffs and what it assumed. Nor does the next term here.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import PODS
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.process.runtime import Panic, raised
from kubeskew.scheduler import profiles, volumes
from kubeskew.scheduler.cache import Cache
from kubeskew.scheduler.event_handlers import ClusterInformers
from kubeskew.scheduler.features import SchedulerFeatures
from kubeskew.scheduler.framework.events import EventLabels
from kubeskew.scheduler.framework.filters import NodeFilter, Nominator
from kubeskew.scheduler.framework.profile import Profile
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.metrics import Metrics
from kubeskew.scheduler.plugins.dynamicresources.generations import AnyState, dynamic_state
from kubeskew.scheduler.plugins.registry import PluginContext
from kubeskew.scheduler.pod_status import FailureHandler
from kubeskew.scheduler.queue import SchedulingQueue
from kubeskew.scheduler.schedule_one import Scheduler
from kubeskew.scheduler.settings import SchedulerSettings

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric


class SchedulerService:
    """Schedules between `lead` and its end; informers run all the time."""

    def __init__(
        self,
        environment: Environment,
        client: APIClient,
        registry: "CollectorRegistry",
        host: str = "",
        settings: SchedulerSettings | None = None,
        *,
        queues: bool = True,
        panic: Callable[[Panic], None] = raised,
    ) -> None:
        """Raises ProfileError for invalid settings. Without `queues` pending pods are left alone."""
        settings = settings or SchedulerSettings()
        self._panic = panic
        self._features = SchedulerFeatures.of(environment.gates)
        self.metrics = Metrics(registry, self._features)
        self._informers = InformerFactory(
            *(client, environment.clock, environment.entropy), trimmed=True, periods=environment.periods
        )
        names = [profile.scheduler_name for profile in settings.profiles]
        self._recorders = {
            name: EventRecorder(client, environment.clock, name, host, modern=True) for name in names
        }
        self.cache = Cache()
        dynamic = dynamic_state(environment, self._features)
        handle = self._handle(environment, client, names[0])
        made, self.filters = self._profiles(settings, handle, dynamic)
        self.queue = SchedulingQueue(
            environment.clock,
            made,
            self.metrics,
            nominator=handle.nominator,
            backoff=settings.backoff,
            with_hints=self._features.queueing_hints,
            taints_requeue=self._features.taints_requeue,
            pops_from_backoff=self._features.pops_from_backoff,
            keeps_old_rejections=self._features.keeps_old_rejections,
            gated_pods_miss_events=self._features.gated_pods_miss_events,
            attempts_end_late=self._features.attempts_end_late,
            loses_events=self._features.loses_events,
            periods=environment.periods,
            labels=EventLabels(
                listed=self._features.listed_event_labels,
                plural_tolerations=self._features.plural_tolerations,
            ),
        )
        handle.activations.append(self.queue.activate)
        pods = self._informers.informer(PODS)
        self.scheduler = Scheduler(
            made,
            self.filters,
            self.queue,
            self.cache,
            FailureHandler(client, self._recorders, environment.clock, self._features),
            pods.get,
            environment.clock,
            environment.entropy,
            self.metrics,
            double_full_stop=self._features.double_full_stop,
            placement=self._features.placement,
            attempts_end_early=self._features.attempts_end_early,
            attempts_end_by_name=self._features.attempts_end_by_name,
            error_logger=self._features.error_logger,
        )
        taken = self.scheduler.profiles if queues else ()
        ClusterInformers(self.cache, self.queue, taken, self._features, panic).connect(self._informers)
        volumes.connect(self._informers, self.queue)
        if self._features.dynamic_resources:
            dynamic.connect(self._informers, self.queue)
        self.dynamic = dynamic
        self.leading = False
        self._watch_sizes()

    def _handle(self, environment: Environment, client: APIClient, name: str) -> Handle:
        return Handle(
            client,
            self._informers,
            self._recorders[name],
            self._features,
            self.cache,
            Nominator(),
            self.metrics,
            environment.clock,
            environment.entropy,
        )

    def _profiles(
        self, settings: SchedulerSettings, handle: Handle, dynamic: AnyState
    ) -> tuple[list[Profile], dict[str, NodeFilter]]:
        made, filters = [], {}
        for each in settings.profiles:
            recorder = self._recorders[each.scheduler_name]
            own = replace(handle, filters=[], recorder=recorder)
            plugin = partial(dynamic.plugin, own, each.scheduler_name)
            context = PluginContext(own, dynamic.extended, dynamic.totals, plugin)
            profile = profiles.build(each, context, settings.percentage_of_nodes_to_score)
            profile.observe_plugin, profile.monotonic = self.metrics.observe_plugin, handle.clock.monotonic
            profile.count_evaluations = partial(self.metrics.count_evaluations, profile.name)
            filters[profile.name] = NodeFilter(profile, handle.nominator, handle.clock)
            own.filters.append(filters[profile.name])
            made.append(profile)
        profiles.check_queue_sort(made)
        return made, filters

    def _watch_sizes(self) -> None:
        for queue in ("active", "backoff", "unschedulable", "gated"):
            self.metrics.pending.labels(queue=queue).set_function(partial(self._queued, queue))
        for kind in ("nodes", "pods", "assumed_pods"):
            for gauge in self.metrics.cache_sizes:
                gauge.labels(type=kind).set_function(partial(self._cached, kind))

    def _queued(self, queue: str) -> int:
        return self.queue.sizes[queue]

    def _cached(self, kind: str) -> int:
        return self.cache.sizes[kind]

    def pods(self) -> list[dict[str, Any]]:
        return self._informers.informer(PODS).list()

    def synced_informers(self) -> bool | str:
        """A text names what the API server cannot list, as far as that is known."""
        unserved = ", ".join(map(str, self._informers.unserved))
        return self._informers.has_synced or (f"the API server cannot list {unserved}" if unserved else False)

    def start(self) -> None:
        self._informers.start()

    async def synced(self) -> None:
        await self._informers.synced()

    async def settled(self) -> None:
        """Waits until everything has been listed that the server has."""
        await self._informers.settled()

    async def lead(self, ended: asyncio.Event) -> None:
        """Schedules once everything is listed, until `ended` is set; finishes binding cycles."""
        running = asyncio.create_task(self._run(), name="scheduler")
        ending = asyncio.create_task(ended.wait())
        try:
            await asyncio.wait({running, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.leading = False
            ending.cancel()
            running.cancel()
            ended_by, _ = await asyncio.gather(running, ending, return_exceptions=True)
        if isinstance(ended_by, Panic):
            self._panic(ended_by)

    async def _run(self) -> None:
        await self.synced()
        self.leading = True
        await self.scheduler.run()

    async def stop(self) -> None:
        await asyncio.gather(*(recorder.close() for recorder in self._recorders.values()))
        await self._informers.stop()


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
        """Metrics count from the start of the current term."""
        yield from self._registry.collect()

    describe = collect

    async def lead(self, ended: asyncio.Event) -> None:
        """Schedules until `ended` is set; when the lease was lost, the next term begins with nothing."""
        await self.service.lead(ended)
        if not self._stop.is_set():
            await self.service.stop()
            self._begin()
            self.service.start()

"""The scheduling queue: pods that are active, back off after a failure, or wait for an event.

Upstream checks every waiting pod at every event. With thousands of pods whose claims are still being made,
each claim would check all of them. Here a plugin can say in `Topics` which pods a change may concern.

A rejected pod waits until an event of a kind that a rejecting plugin registered for makes another try worth
it. Events that come while a pod is being tried are kept and judged when it comes back.
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.periods import DEFAULT_PERIODS, Periods
from kubeskew.scheduler.framework.events import (
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    EventHint,
    EventLabels,
    EventResource,
)
from kubeskew.scheduler.framework.filters import Nominator
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.profile import Profile
from kubeskew.scheduler.metrics import Metrics
from kubeskew.scheduler.settings import Backoff

_LONGEST_WAIT_SECONDS = 3600.0
_POD_ADDED = ClusterEvent(EventResource.UNSCHEDULED_POD, Action.ADD)
_POD_CHANGED = ClusterEvent(EventResource.UNSCHEDULED_POD, Action.UPDATE)
_POD_POPPED = "PodPopped"  # the label of pods in flight in upstream's list of events
_LONG_AGO = float("-inf")  # no backoff for a pod that only waited


@dataclass(slots=True)
class QueuedPod:
    """A pod with its history in the queue. Times are monotonic."""

    info: PodInfo
    enqueued: float
    first_enqueued: float
    attempts: int = 0
    failures: int = 0
    tried: float = 0.0  # when the last attempt ended
    failed: bool = False  # whether that was an error, not a rejection
    rejected_by: set[str] = field(default_factory=set)
    pending_by: set[str] = field(default_factory=set)
    gated_by: str = ""
    flushed: bool = False  # whether it is tried because it has waited too long, not for an event

    @property
    def uid(self) -> str:
        return self.info.uid

    @property
    def unschedulable_plugins(self) -> frozenset[str]:
        """A plugin that gates the pod is the only one; otherwise all that rejected it, or left it pending."""
        return frozenset((self.gated_by,)) if self.gated_by else frozenset(self.rejected_by | self.pending_by)


@dataclass(frozen=True, slots=True)
class InFlightEvent:
    event: ClusterEvent
    old: Object | None
    new: Object | None


def _with_taints(hints: Sequence[EventHint]) -> Sequence[EventHint]:
    """Source: k8s.io/kubernetes/pkg/scheduler/scheduler.go, buildQueueingHintMap, 1.31 … 1.36."""
    added, tainted = (
        ClusterEvent(EventResource.NODE, action) for action in (Action.ADD, Action.UPDATE_NODE_TAINT)
    )
    if any(each.event.covers(added) for each in hints) and not any(
        each.event.covers(tainted) for each in hints
    ):
        return [*hints, EventHint(tainted)]
    return hints


class QueueingHints:
    """The hints of plugins that an event calls for."""

    def __init__(
        self,
        hints: Mapping[str, Sequence[EventHint]],
        *,
        with_hints: bool = True,
        taints_requeue: bool = False,
    ) -> None:
        """`with_hints` False: an event that a plugin registered for always helps. `taints_requeue`: so do
        changed taints of nodes, if it registered for new nodes and not for taints."""
        if taints_requeue:
            hints = {name: _with_taints(some) for name, some in hints.items()}
        if not with_hints:
            hints = {name: [EventHint(hint.event) for hint in some] for name, some in hints.items()}
        self.hints = hints
        self._everybody = frozenset(hints)
        self._known: dict[tuple[frozenset[str], EventResource, int], Sequence[EventHint]] = {}

    def of(self, plugins: frozenset[str], event: ClusterEvent) -> Sequence[EventHint]:
        key = (plugins, event.resource, event.action.value)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = [
                hint
                for plugin in sorted(plugins)
                for hint in self.hints.get(plugin, ())
                if hint.event.covers(event)
            ]
        return found

    def any_registered(self, event: ClusterEvent) -> bool:
        """Spares the look at each pod if no plugin registered for the event."""
        return event.resource is EventResource.ANY or bool(self.of(self._everybody, event))

    def helps(self, queued: QueuedPod, happened: InFlightEvent) -> bool:
        unschedulable_plugins = queued.unschedulable_plugins
        if not unschedulable_plugins or happened.event.resource is EventResource.ANY:
            return True
        return self._any_hint(unschedulable_plugins, queued, happened)

    def ends_wait(self, queued: QueuedPod, happened: InFlightEvent) -> bool:
        """A pod whose plugin waited for this with its Pending need not back off."""
        return bool(queued.pending_by) and self._any_hint(frozenset(queued.pending_by), queued, happened)

    def _any_hint(self, plugins: frozenset[str], queued: QueuedPod, happened: InFlightEvent) -> bool:
        pod, old, new = queued.info.pod, happened.old, happened.new
        return any(hint.hint is None or hint.hint(pod, old, new) for hint in self.of(plugins, happened.event))


@dataclass(frozen=True, slots=True)
class _Entry:
    serial: int
    unschedulable_plugins: frozenset[str]
    topics: Collection[Hashable]


class UnschedulablePods:
    """Rejected and gated pods, in the order in which they came."""

    def __init__(self, hints: QueueingHints) -> None:
        self._hints = hints
        self._pods: dict[str, QueuedPod] = {}
        self._entries: dict[str, _Entry] = {}
        self._groups: dict[frozenset[str], dict[str, QueuedPod]] = {}
        self._by_topic: dict[Hashable, dict[str, QueuedPod]] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPod]:
        return iter(self._pods.values())

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def get(self, uid: str) -> QueuedPod | None:
        return self._pods.get(uid)

    def add(self, queued: QueuedPod) -> None:
        """Adds a pod, or a newer version of one that waits already."""
        before = self._entries.get(queued.uid)
        if before is not None:
            self.pop(queued.uid)
        else:
            self._serial += 1
        unschedulable_plugins = queued.unschedulable_plugins
        topics = dict.fromkeys(
            topic
            for plugin in sorted(unschedulable_plugins)
            for hint in self._hints.hints.get(plugin, ())
            if hint.topics is not None
            for topic in hint.topics.of_pod(queued.info.pod)
        )
        serial = self._serial if before is None else before.serial
        self._entries[queued.uid] = _Entry(serial, unschedulable_plugins, topics)
        self._pods[queued.uid] = queued
        self._groups.setdefault(unschedulable_plugins, {})[queued.uid] = queued
        for topic in topics:
            self._by_topic.setdefault(topic, {})[queued.uid] = queued

    def pop(self, uid: str) -> QueuedPod | None:
        queued = self._pods.pop(uid, None)
        if queued is None:
            return None
        entry = self._entries.pop(uid)
        _drop(self._groups, entry.unschedulable_plugins, uid)
        for topic in entry.topics:
            _drop(self._by_topic, topic, uid)
        return queued

    def helped_by(self, happened: InFlightEvent) -> list[QueuedPod]:
        """Pods come in the order in which they were added."""
        if happened.event.resource is EventResource.ANY:
            return list(self)
        found = [
            queued
            for unschedulable_plugins, group in self._groups.items()
            for queued in self._concerned(
                group, self._hints.of(unschedulable_plugins, happened.event), happened
            )
            if self._hints.helps(queued, happened)
        ]
        return sorted(found, key=lambda queued: self._entries[queued.uid].serial)

    def _concerned(
        self, group: Mapping[str, QueuedPod], hints: Sequence[EventHint], happened: InFlightEvent
    ) -> Collection[QueuedPod]:
        topics: dict[Hashable, None] = {}
        for hint in hints:
            concerned = hint.topics.of_change(happened.old, happened.new) if hint.topics is not None else None
            if concerned is None:
                return group.values()
            topics.update(dict.fromkeys(concerned))
        found = {uid: queued for topic in topics for uid, queued in self._by_topic.get(topic, {}).items()}
        return [queued for uid, queued in found.items() if uid in group]


def _drop(index: dict[Any, dict[str, QueuedPod]], key: Hashable, uid: str) -> None:
    index[key].pop(uid, None)
    if not index[key]:
        del index[key]


class SchedulingQueue:
    def __init__(
        self,
        clock: Clock,
        profiles: Sequence[Profile],
        metrics: Metrics | None = None,
        *,
        nominator: Nominator | None = None,
        backoff: Backoff | None = None,
        with_hints: bool = True,
        taints_requeue: bool = False,
        pops_from_backoff: bool = False,
        keeps_old_rejections: bool = False,
        gated_pods_miss_events: bool = False,
        attempts_end_late: bool = False,
        loses_events: bool = False,
        labels: EventLabels | None = None,
        periods: Periods = DEFAULT_PERIODS,
    ) -> None:
        """Without hints, every event that a plugin registered for requeues the pods it rejected.

        `pops_from_backoff`: while no pod is active, pods that back off after a rejection are tried. The
        others are bugs: an attempt begins with the rejections of the one before (pull request 120334); a pod
        that PreEnqueue holds back is woken by nothing but its own changes (issue 125223); an attempt ends a
        moment after its pod may be tried again, and a pod taken in that moment is lost (issue 139186); an
        event during an attempt is found by the event before it, and so not at all once no attempt needs the
        earlier one (pull request 120413).
        """
        self._labels = labels or EventLabels()  # what metrics call events
        self._with_hints = with_hints
        self._keeps_old_rejections = keeps_old_rejections
        self._gated_pods_miss_events = gated_pods_miss_events
        self._ends_late = attempts_end_late
        self._loses_events = loses_events
        self._pops_from_backoff = pops_from_backoff
        self._clock = clock
        self._periods = periods
        self._profiles = {profile.name: profile for profile in profiles}
        self._queue_sort = profiles[0].queue_sort
        self._metrics = metrics
        self.nominator = nominator if nominator is not None else Nominator()
        self._ready_at = (backoff or Backoff()).ready_at
        self._active: dict[str, QueuedPod] = {}
        self._heap: list[tuple[tuple[Any, ...], int, QueuedPod]] = []
        self._backoff: dict[str, QueuedPod] = {}
        hints = {name: hints for profile in reversed(profiles) for name, hints in profile.hints.items()}
        self._hints = QueueingHints(hints, with_hints=with_hints, taints_requeue=taints_requeue)
        self._waiting = UnschedulablePods(self._hints)  # rejected or gated
        self._in_flight: dict[str, int] = {}  # uid → the first event it has not seen
        self._after_event: set[str] = set()  # uids of those that were taken out after an event that was kept
        self._happened: deque[InFlightEvent] = deque()
        self._forgotten = 0  # number of events dropped from the front of `_happened`
        self._shown: set[str] = set()  # labels of events that the metric has
        self._serial = itertools.count()
        self._changed = asyncio.Event()
        self._flushed = clock.monotonic()
        self._show_in_flight(_POD_POPPED)

    # -- in

    def add(self, pod: PodInfo) -> None:
        """Adds a pod that was not in the queue before."""
        now = self._clock.monotonic()
        self.nominator.add(pod)
        self._enqueue(QueuedPod(pod, now, now), self._labels.of(_POD_ADDED))

    def update(self, pod: PodInfo, old: Object, events: list[ClusterEvent]) -> None:
        """Takes a newer version of a pending pod; `events` are its changes."""
        queued = self._find(pod.uid)
        if queued is not None or pod.uid in self._in_flight:
            self.nominator.update((old.get("status") or {}).get("nominatedNodeName") or "", pod)
        if queued is None:
            if pod.uid in self._in_flight:
                self._remember(InFlightEvent(event, old, pod.pod) for event in events)
            else:
                self.add(pod)
            return
        queued.info = pod
        if pod.uid not in self._waiting:
            return
        self._waiting.add(queued)
        if any(self._hints.helps(queued, InFlightEvent(event, old, pod.pod)) for event in events):
            self._waiting.pop(pod.uid)
            self._requeue(queued, self._labels.of(events[0] if events else _POD_CHANGED))

    def delete(self, uid: str) -> None:
        self.nominator.remove(uid)
        popped = (self._active.pop(uid, None), self._backoff.pop(uid, None), self._waiting.pop(uid))
        for queued in popped:
            if queued is not None:
                self._blame(queued, -1)

    def activate(self, uid: str) -> None:
        queued = self._backoff.pop(uid, None) or self._waiting.pop(uid)
        if queued is not None:
            self._enqueue(queued, "ForceActivate")

    def add_unschedulable_if_not_present(self, queued: QueuedPod, nominated: str | None = None) -> None:
        """Takes a pod back after a failed attempt; an empty `rejected_by` means an error.

        Without hints, any event since the attempt began has it tried again (upstream's moveRequestCycle).
        `nominated` is the node of its nomination, "" for none; None keeps the present one.
        """
        if self._find(queued.uid) is not None:
            return  # only another pod of the same name, which was taken for the one that was tried
        since, is_over = self._since(queued.uid), queued.uid not in self._in_flight
        if not self._ends_late:
            self.done(queued.uid)
        queued.tried = queued.enqueued = self._clock.monotonic()
        queued.failures += 1
        queued.flushed = False
        queued.failed = not queued.rejected_by and not queued.pending_by
        self._blame(queued, 1)
        if self._with_hints and any(self._hints.ends_wait(queued, event) for event in since):
            queued.tried = _LONG_AGO
        if self._with_hints:
            # Of an attempt that is over nothing is known: determineSchedulingHintForInFlightPod, 1.34.
            moved = is_over or any(self._hints.helps(queued, event) for event in since)
        else:
            moved = bool(since)
        if queued.failed or moved:
            self._requeue(queued, "ScheduleAttemptFailure")
        else:
            self._waiting.add(queued)
            self._count("unschedulable", "ScheduleAttemptFailure")
        self.nominator.add(queued.info, nominated)

    def _since(self, uid: str) -> list[InFlightEvent]:
        seen = self._in_flight.get(uid)
        if seen is None:
            return []
        lost = self._loses_events and uid in self._after_event and seen <= self._forgotten
        return [] if lost else [*islice(self._happened, seen - self._forgotten, None)]

    async def put_back(self, queued: QueuedPod, nominated: str | None = None) -> None:
        """Takes a pod back after a failed attempt, and ends the attempt."""
        self.add_unschedulable_if_not_present(queued, nominated)
        if self._ends_late:
            await asyncio.sleep(0)
            self.done(queued.uid)

    def done(self, uid: str) -> None:
        """Ends the attempt: the pod is bound, gone, or about to be given back."""
        self._in_flight.pop(uid, None)
        self._after_event.discard(uid)
        # Pods are taken out in order: the first in flight has seen the fewest events.
        seen = next(iter(self._in_flight.values()), self._forgotten + len(self._happened))
        while self._forgotten < seen:
            self._happened.popleft()
            self._forgotten += 1

    # -- events

    def move_all_to_active_or_backoff_queue(
        self,
        event: ClusterEvent,
        old: Object | None,
        new: Object | None,
        wakes: Callable[[PodInfo], bool] | None = None,
    ) -> None:
        """Requeues the pods that a change may help, of those that it `wakes`."""
        if not self._hints.any_registered(event):
            return
        happened = InFlightEvent(event, old, new)
        self._remember((happened,))
        for queued in self._waiting.helped_by(happened):
            if (wakes is not None and not wakes(queued.info)) or self._sleeps(queued):
                continue
            self._waiting.pop(queued.uid)
            if self._hints.ends_wait(queued, happened):
                queued.tried = _LONG_AGO
            self._requeue(queued, self._labels.of(event))

    def _sleeps(self, queued: QueuedPod) -> bool:
        return self._gated_pods_miss_events and bool(queued.gated_by)

    def _remember(self, events: Iterable[InFlightEvent]) -> None:
        if not self._in_flight:
            return
        for happened in events:
            self._happened.append(happened)
            self._show_in_flight(self._labels.of(happened.event))

    def _show_in_flight(self, label: str) -> None:
        """A metric counts the events of that label, or the pods, that are kept for attempts under way."""
        gauge = self._metrics.in_flight if self._metrics is not None else None
        if gauge is not None and label not in self._shown:
            self._shown.add(label)
            gauge.labels(event=label).set_function(partial(self._kept, label))

    def _kept(self, label: str) -> int:
        if label == _POD_POPPED:
            return len(self._in_flight)
        return sum(self._labels.of(happened.event) == label for happened in self._happened)

    # -- out

    async def pop(self) -> QueuedPod:
        """Waits until there is a pod to try. The caller must call `done` or `put_back`."""
        while True:
            self._flush()
            queued = self._take()
            if queued is not None and queued.uid not in self._in_flight:
                queued.attempts += 1
                self._in_flight[queued.uid] = self._forgotten + len(self._happened)
                if self._happened:
                    self._after_event.add(queued.uid)
                self._blame(queued, -1)
                if not self._keeps_old_rejections:
                    queued.rejected_by, queued.pending_by = set(), set()
                return queued
            if queued is None:
                await self._wait()

    def _take(self) -> QueuedPod | None:
        while self._heap:
            _, _, queued = heapq.heappop(self._heap)
            if self._active.get(queued.uid) is queued:
                del self._active[queued.uid]
                return queued
        return self._early() if self._pops_from_backoff else None

    def _early(self) -> QueuedPod | None:
        """Takes the rejected pod whose backoff ends first; a backoff after an error always runs to its
        end."""
        rejected = [queued for queued in self._backoff.values() if not queued.failed]
        if not rejected:
            return None
        queued = min(rejected, key=self._ready_at)
        del self._backoff[queued.uid]
        return queued if self._admitted(queued, "PopFromBackoffQ") else self._early()

    async def _wait(self) -> None:
        self._changed.clear()
        changed = asyncio.ensure_future(self._changed.wait())
        timer = asyncio.ensure_future(self._clock.sleep(self._until_next()))
        try:
            await asyncio.wait({changed, timer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            timer.cancel()

    def _until_next(self) -> float:
        """Seconds until a pod leaves the backoff queue or has waited too long."""
        now = self._clock.monotonic()
        moments = [self._ready_at(queued) for queued in self._backoff.values()]
        if self._waiting:
            moments.append(self._flushed + self._periods.scheduler_flush)
        return max(0.001, min(moments, default=now + _LONGEST_WAIT_SECONDS) - now)

    def _flush(self) -> None:
        now = self._clock.monotonic()
        for queued in [queued for queued in self._backoff.values() if self._ready_at(queued) <= now]:
            del self._backoff[queued.uid]
            self._enqueue(queued, "BackoffComplete")
        if now - self._flushed < self._periods.scheduler_flush:
            return
        self._flushed = now
        longest = self._periods.scheduler_leftover
        stale = [queued for queued in self._waiting if now - queued.enqueued > longest]
        for queued in stale:
            if self._sleeps(queued):
                continue
            self._waiting.pop(queued.uid)
            queued.flushed = True
            self._requeue(queued, self._labels.of(UNSCHEDULABLE_TIMEOUT))

    # -- placing

    def _requeue(self, queued: QueuedPod, event: str) -> None:
        if self._ready_at(queued) > self._clock.monotonic():
            if self._pops_from_backoff and not self._admitted(queued, event):
                return  # as upstream, from where the pod could be taken at once
            self._backoff[queued.uid] = queued
            self._count("backoff", event)
            self._changed.set()
        else:
            self._enqueue(queued, event)

    def _enqueue(self, queued: QueuedPod, event: str) -> None:
        if not self._admitted(queued, event):
            return
        queued.enqueued = self._clock.monotonic()
        self._active[queued.uid] = queued
        key = self._queue_sort.sort_key(queued.info, queued.enqueued)
        heapq.heappush(self._heap, (key, next(self._serial), queued))
        self._count("active", event)
        self._changed.set()

    def _admitted(self, queued: QueuedPod, event: str) -> bool:
        """Every plugin must let the pod be tried; otherwise the pod waits."""
        queued.gated_by = ""
        for plugin in self._profile(queued).pre_enqueue:
            if not plugin.pre_enqueue(queued.info).is_success:
                queued.gated_by = plugin.name
                self._waiting.add(queued)
                self._count("gated", event)
                return False
        return True

    def _profile(self, queued: QueuedPod) -> Profile:
        return self._profiles[queued.info.scheduler_name]

    def _find(self, uid: str) -> QueuedPod | None:
        return self._active.get(uid) or self._backoff.get(uid) or self._waiting.get(uid)

    # -- numbers

    def _count(self, queue: str, event: str) -> None:
        if self._metrics is not None:
            self._metrics.incoming.labels(queue, event).inc()

    def _blame(self, queued: QueuedPod, change: int) -> None:
        if self._metrics is not None:
            for plugin in sorted(queued.rejected_by | queued.pending_by):
                name = queued.info.scheduler_name
                self._metrics.unschedulable.labels(plugin=plugin, profile=name).inc(change)

    @property
    def sizes(self) -> dict[str, int]:
        """Upstream's names of the queues are the keys."""
        gated = sum(1 for queued in self._waiting if queued.gated_by)
        return {
            "active": len(self._active),
            "backoff": len(self._backoff),
            "unschedulable": len(self._waiting) - gated,
            "gated": gated,
        }

"""The pods that wait for an event, found by what they wait for.

Upstream checks every waiting pod at every event. With thousands of pods whose claims are still being made,
each claim would check all of them. Here a plugin can say in `Topics` which pods a change may concern.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.framework.events import ClusterEvent, EventHint, EventResource
from kubeskew.scheduler.framework.pod_info import PodInfo


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
        """Returns the plugins that keep the pod from being tried."""
        return frozenset((self.gated_by,)) if self.gated_by else frozenset(self.rejected_by | self.pending_by)


@dataclass(frozen=True, slots=True)
class InFlightEvent:
    """A change, with the object before and after it."""

    event: ClusterEvent
    old: Object | None
    new: Object | None


class QueueingHints:
    """The hints of plugins that an event calls for."""

    def __init__(self, hints: Mapping[str, Sequence[EventHint]], *, with_hints: bool = True) -> None:
        """`with_hints` False: an event that a plugin registered for always helps."""
        if not with_hints:
            hints = {name: [EventHint(hint.event) for hint in some] for name, some in hints.items()}
        self.hints = hints
        self._everybody = frozenset(hints)
        self._known: dict[tuple[frozenset[str], EventResource, int], Sequence[EventHint]] = {}

    def of(self, plugins: frozenset[str], event: ClusterEvent) -> Sequence[EventHint]:
        """Returns the hints of these plugins that are about such an event."""
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

    def anybody(self, event: ClusterEvent) -> bool:
        """Returns whether the event can help any pod at all."""
        return event.resource is EventResource.ANY or bool(self.of(self._everybody, event))

    def helps(self, queued: QueuedPod, happened: InFlightEvent) -> bool:
        """Returns whether the pod should be tried again."""
        unschedulable_plugins = queued.unschedulable_plugins
        if not unschedulable_plugins or happened.event.resource is EventResource.ANY:
            return True
        return self._any_hint(unschedulable_plugins, queued, happened)

    def ends_wait(self, queued: QueuedPod, happened: InFlightEvent) -> bool:
        """Returns whether a plugin waited for this with its Pending: the pod need not back off then."""
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
        """Removes and returns the pod, if it is there."""
        queued = self._pods.pop(uid, None)
        if queued is None:
            return None
        entry = self._entries.pop(uid)
        _drop(self._groups, entry.unschedulable_plugins, uid)
        for topic in entry.topics:
            _drop(self._by_topic, topic, uid)
        return queued

    def helped_by(self, happened: InFlightEvent) -> list[QueuedPod]:
        """Returns the pods that should be tried again, in the order in which they came."""
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
        """Returns the pods of the group for which the hints have to be called."""
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

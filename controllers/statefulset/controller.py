"""The stateful set controller: its loop, and the reconciliation of one stateful set, which creates, deletes
and replaces pods, or waits for them.

Each step that has to be waited for ends the reconciliation.

Sources: k8s.io/kubernetes/pkg/controller/statefulset/stateful_set_control.go, 1.36;
k8s.io/kubernetes/pkg/controller/statefulset, 1.36.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS
from kubeskew.apimachinery.golang.raw_extensions import RawObject
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.apimachinery.process.runtime import Panic
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.controllers.framework import history, pods
from kubeskew.controllers.framework.base import ControllerContext, Key
from kubeskew.controllers.framework.history import Revisions, applied
from kubeskew.controllers.framework.pod_control import scaled, slow_start
from kubeskew.controllers.framework.pod_controller import PodOwnerController
from kubeskew.controllers.statefulset import stateful_pods
from kubeskew.controllers.statefulset.features import StatefulSetFeatures
from kubeskew.controllers.statefulset.stateful_pods import StatefulPods, is_created, ordinal, revision_of

_FIRST_BATCHES = 2  # pods that a slow start creates before it creates two at once

Step = Callable[[Object], Awaitable[bool]]  # True: this reconciliation ends here
_DEFAULT_HISTORY = 10


class Rollout:
    def __init__(
        self,
        control: StatefulPods,
        recorder: EventRecorder,
        stateful_set: Object,
        found: Sequence[Object],
        current: Object,
        update: Object,
        now: datetime,
        features: StatefulSetFeatures,
    ) -> None:
        self._control = control
        self._recorder = recorder
        self._set = stateful_set
        self._current, self._update = current, update
        self._now = now
        self._features = features
        self._found = found
        self._current_replicas = self._counted(current)
        self.replicas = self._wanted_pods()
        self.condemned = sorted(
            (pod for pod in found if ordinal(pod) >= 0 and not stateful_pods.in_range(stateful_set, pod)),
            key=ordinal,
            reverse=True,
        )
        missing = [pod for pod in [*self.replicas, *reversed(self.condemned)] if self._is_unavailable(pod)]
        self._first_unavailable = missing[0] if missing else None

    @property
    def labels_claims_at_once(self) -> bool:
        """True if claims with labels are to be created for several pods concurrently."""
        templates = self._set["spec"].get("volumeClaimTemplates") or ()
        labelled = any((template.get("metadata") or {}).get("labels") for template in templates)
        missing = sum(not is_created(pod) for pod in self.replicas)
        return labelled and not self._monotonic and missing > _FIRST_BATCHES

    # -- the plan

    def _wanted_pods(self) -> list[Object]:
        """By ordinal: the existing pod, or the one to create."""
        present = {ordinal(pod): pod for pod in self._found if stateful_pods.in_range(self._set, pod)}
        first = stateful_pods.start(self._set)
        numbers = range(first, first + stateful_pods.replicas(self._set))
        return [present.get(number) or self._new_pod(number) for number in numbers]

    def _new_pod(self, number: int) -> Object:
        revision = self._current if self._needs_current(number) else self._update
        wanted = applied(self._set, revision)
        return stateful_pods.new_pod(
            wanted, number, revision["metadata"]["name"], index_label=self._features.pod_index_label
        )

    def _needs_current(self, number: int) -> bool:
        """True below the partition: pods that the rolling update has not reached are recreated from the
        current revision.
        """
        if not self._rolls:
            return False
        rolling = self._set["spec"]["updateStrategy"].get("rollingUpdate")
        if rolling is None:
            kept = (self._set.get("status") or {}).get("currentReplicas") or 0
        else:
            kept = rolling.get("partition") or 0
        return number < stateful_pods.start(self._set) + int(kept)

    @property
    def _monotonic(self) -> bool:
        return not stateful_pods.bursts(self._set)

    @property
    def _min_ready(self) -> int:
        return int(self._set["spec"].get("minReadySeconds") or 0)

    def _is_available(self, pod: Object) -> bool:
        return (
            stateful_pods.is_running_and_ready(pod)
            and pods.available_in(pod, self._min_ready, self._now) == 0
        )

    def _is_unavailable(self, pod: Object) -> bool:
        return pods.is_terminating(pod) or not self._is_available(pod)

    # -- the steps

    async def run(self) -> None:
        if self._set["metadata"].get("deletionTimestamp"):
            return
        scale = [self._provide_all, self._remove_condemned]
        if not (self._monotonic or self._features.creates_before_scale_down):
            scale.reverse()
        for part in scale:
            if await part():
                return
        strategy = self._set["spec"].get("updateStrategy") or {}
        if strategy.get("type") != "OnDelete":
            await self._replace(strategy.get("rollingUpdate") or {})

    async def _provide_all(self) -> bool:
        return await self._each(self.replicas, self._provide)

    async def _remove_condemned(self) -> bool:
        for pod in self.condemned if self._control.deletes_claims else ():
            if not self._control.owned_as_wanted(self._set, pod):
                await self._control.own_claims(self._set, pod)
        return await self._each(self.condemned, self._remove)

    async def _each(self, found: Sequence[Object], step: Step) -> bool:
        """Runs a step for each pod until one has to be waited for; in parallel, in growing batches, if the
        set allows it. True if a pod has to be waited for.
        """
        if self._monotonic:
            for pod in found:
                if await step(pod):
                    return True
            return False
        left = iter(found)

        async def one() -> None:
            await step(next(left))

        _, failures = await slow_start(len(found), 1, one)
        if failures:
            raise failures[0]
        return False

    async def _provide(self, pod: Object) -> bool:
        kept = self._features.keeps_succeeded and pods.phase(pod) == "Succeeded"
        if is_terminal(pod) and is_created(pod) and not kept:
            if not pods.is_terminating(pod):
                self._report_ended(pod)
                await self._control.delete(self._set, pod)
            return True  # the new pod comes when this one is gone
        if not is_created(pod):
            if self._control.waits_for_claims(self._set, pod):
                return True
            await self._control.create(self._set, pod)
            return self._monotonic
        if pods.phase(pod) == "Pending" and not pods.is_terminating(pod):
            await self._control.create_claims(self._set, pod)
        if self._monotonic and (pods.is_terminating(pod) or not self._is_available(pod)):
            return True
        if not self._control.is_settled(self._set, pod):
            await self._control.correct(self._set, pod)
        return False

    def _report_ended(self, pod: Object) -> None:
        if not self._features.reports_recreation:
            return
        metadata = self._set["metadata"]
        whose = f"StatefulSet {metadata['namespace']}/{metadata['name']} is recreating"
        if pods.phase(pod) == "Failed":
            text = f"{whose} failed Pod {pod['metadata']['name']}"
            self._recorder.event(self._set, "Warning", "RecreatingFailedPod", text)
        else:
            text = f"{whose} terminated Pod {pod['metadata']['name']}"
            self._recorder.event(self._set, "Normal", "RecreatingTerminatedPod", text)

    async def _remove(self, pod: Object) -> bool:
        """The highest ordinal goes first, and only while all other pods are healthy."""
        if pods.is_terminating(pod):
            return self._monotonic
        if self._monotonic and not self._is_available(pod) and pod is not self._first_unavailable:
            return True
        await self._control.delete(self._set, pod)
        return True

    async def _replace(self, rolling: Object) -> None:
        """Old revisions go first from the highest ordinal, down to the partition."""
        least = int(rolling.get("partition") or 0)
        if self._features.max_unavailable:
            await self._replace_several(least, rolling.get("maxUnavailable"))
            return
        for pod in reversed(self.replicas[least:]):
            if self._is_old(pod):
                await self._control.delete(self._set, pod)
                self._current_replicas -= 1
                return
            if self._is_unavailable(pod):
                return

    async def _replace_several(self, least: int, max_unavailable: int | str | None) -> None:
        count = len(self.replicas)
        allowed = 1 if max_unavailable is None else max(1, scaled(max_unavailable, count, round_up=False))
        allowed -= sum(self._is_unavailable(pod) for pod in self.replicas)
        for pod in self._old_and_unavailable(least):
            await self._control.delete(self._set, pod)
            self._current_replicas -= 1
        for pod in reversed(self.replicas[least:]):
            if allowed <= 0:
                return
            if self._is_old(pod) and (self._deletes_in_order or not self._is_unavailable(pod)):
                await self._control.delete(self._set, pod)
                self._current_replicas -= 1
                allowed -= 1

    @property
    def _deletes_in_order(self) -> bool:
        """Pods are then replaced by their ordinal alone, in any condition."""
        return self._monotonic or self._features.counts_old_unavailable

    def _old_and_unavailable(self, least: int) -> list[Object]:
        """A parallel set replaces these pods first, regardless of maxUnavailable: they serve nobody."""
        if self._deletes_in_order:
            return []
        return [
            pod for pod in reversed(self.replicas[least:]) if self._is_old(pod) and self._is_unavailable(pod)
        ]

    def _is_old(self, pod: Object) -> bool:
        return revision_of(pod) != self._update["metadata"]["name"] and not pods.is_terminating(pod)

    # -- the status

    def _counted(self, revision: Object) -> int:
        name = revision["metadata"]["name"]
        return sum(revision_of(pod) == name and not pods.is_terminating(pod) for pod in self._found)

    def status(self, collisions: int) -> Object:
        """Counts only the pods that are known so far."""
        status: Object = {
            "observedGeneration": self._set["metadata"].get("generation", 0),
            "replicas": len(self._found),
            "readyReplicas": sum(stateful_pods.is_running_and_ready(pod) for pod in self._found),
            "availableReplicas": sum(self._is_available(pod) for pod in self._found),
            "currentReplicas": max(0, self._current_replicas),
            "updatedReplicas": self._counted(self._update),
            "currentRevision": self._current["metadata"]["name"],
            "updateRevision": self._update["metadata"]["name"],
            "collisionCount": collisions,
        }
        if conditions := (self._set.get("status") or {}).get("conditions"):
            status["conditions"] = conditions
        if self._rolls or not self._features.on_delete_never_completes:
            counted = self._features.completes_without_missing
            _complete(status, status["replicas"] if counted else stateful_pods.replicas(self._set))
        return status

    @property
    def _rolls(self) -> bool:
        return (self._set["spec"].get("updateStrategy") or {}).get("type") == "RollingUpdate"


def _complete(status: Object, wanted: int) -> None:
    if all(status[name] == wanted for name in ("updatedReplicas", "replicas", "readyReplicas")):
        status["currentReplicas"] = status["updatedReplicas"]
        status["currentRevision"] = status["updateRevision"]


class StatefulSetController(PodOwnerController):
    name = "statefulset-controller"
    component = "statefulset-controller"
    ref = STATEFUL_SETS
    deletion_frees = False  # the name is free only when the pod is gone

    def __init__(self, context: ControllerContext) -> None:
        environment = context.environment
        self._features = features = StatefulSetFeatures.of(environment.gates)
        super().__init__(
            context, waits_for_own_writes=features.waits_for_own_writes, match=features.owner_match
        )
        claims = context.informer(PERSISTENT_VOLUME_CLAIMS)
        self.own_writes.watch(PERSISTENT_VOLUME_CLAIMS, claims)
        self._revisions = Revisions(
            self.client,
            context.informer(CONTROLLER_REVISIONS),
            self.ref,
            features.revision_match,
            releases=False,
        )
        self._control = StatefulPods(
            self.client,
            self.recorder,
            claims,
            self.own_writes,
            index_label=features.pod_index_label,
            deletes_claims=features.auto_delete_claims,
            capital_events=features.capital_events,
        )

    def selector(self, obj: Object) -> LabelSelector:
        return LabelSelector.from_object(obj["spec"].get("selector"))

    def selects(self, obj: Object) -> Callable[[Object], bool]:
        """Names must match, too."""
        matches = super().selects(obj)
        return lambda pod: matches(pod) and stateful_pods.is_member(obj, pod)

    async def sync(self, key: Key) -> None:
        self.own_writes.ensure_seen(key)
        stateful_set = self.objects.get(*key)
        if stateful_set is None:
            return
        selector = self.selector(stateful_set)
        if selector.is_empty():
            return
        revisions = await self._revisions.of(
            stateful_set, lambda one: selector.matches(one["metadata"].get("labels"))
        )
        found = await self.claim_pods(stateful_set)
        await self._reconcile(key, stateful_set, found, revisions)

    async def _reconcile(
        self, key: Key, stateful_set: Object, found: Sequence[Object], revisions: list[Object]
    ) -> None:
        listed = len(revisions)
        current, update, collisions = await self._current_and_update(stateful_set, revisions)
        rollout = Rollout(
            self._control,
            self.recorder,
            stateful_set,
            found,
            current,
            update,
            self.clock.now(),
            self._features,
        )
        if self._features.panics_in_parallel and rollout.labels_claims_at_once:
            raise Panic("concurrent map writes")
        try:
            await rollout.run()
        finally:
            status = rollout.status(collisions)
            await self._note(stateful_set, status)
        live = {
            current["metadata"]["name"],
            update["metadata"]["name"],
            *map(stateful_pods.revision_of, found),
        }
        await self._truncate(stateful_set, history.unused(revisions, live), listed)
        self._look_again(key, stateful_set, found, status)

    # -- revisions

    async def _current_and_update(
        self, stateful_set: Object, revisions: list[Object]
    ) -> tuple[Object, Object, int]:
        """The revisions are the one that is being left and that of the present template; the number counts
        collisions of names.
        """
        status = stateful_set.get("status") or {}
        collisions = int(status.get("collisionCount") or 0)
        number = history.next_number(revisions)
        wanted = history.patch_of(stateful_set, writes_empty_times=self._features.writes_empty_times)
        by_bytes = self._features.compares_revision_bytes
        equal = [
            revision
            for revision in revisions
            if history.same_data(revision.get("data"), wanted, by_bytes=by_bytes)
        ]
        if equal and equal[-1] is revisions[-1]:
            update = equal[-1]
        elif equal:
            update = await self._revisions.renumber(equal[-1], number)
        else:
            update, collisions = await self._create_revision(stateful_set, number, wanted, collisions)
            revisions.append(update)
        name = status.get("currentRevision")
        current = next((revision for revision in revisions if revision["metadata"]["name"] == name), update)
        return current, update, collisions

    async def _create_revision(
        self, stateful_set: Object, number: int, data: RawObject, collisions: int
    ) -> tuple[Object, int]:
        while True:
            text = history.data_hash(data, collisions)
            new = history.new_revision(stateful_set, self.ref, number, data, text, history.HASH_LABEL)
            made = await self._revisions.create(new)
            if made is not None:
                return made, collisions
            collisions += 1

    async def _truncate(self, stateful_set: Object, unused: Sequence[Object], listed: int) -> None:
        """Deletes the revisions beyond the limit, oldest first; a negative limit keeps all.

        Where that panics, upstream's slice of unused revisions has room for those `listed`, and ends in nil.
        """
        given = stateful_set["spec"].get("revisionHistoryLimit")
        limit = _DEFAULT_HISTORY if given is None else int(given)
        if limit >= 0:
            await self._revisions.delete(unused[: max(0, len(unused) - limit)])
        elif self._features.panics_over_history:
            end = len(unused) - limit
            if end > listed:
                raise Panic(f"runtime error: slice bounds out of range [:{end}] with capacity {listed}")
            await self._revisions.delete(unused)
            raise Panic("runtime error: invalid memory address or nil pointer dereference")

    # -- the status

    async def _note(self, stateful_set: Object, status: Object) -> None:
        present = stateful_set.get("status") or {}
        if present.get("observedGeneration") == status["observedGeneration"] and all(
            (present.get(name) or 0) == (value or 0) for name, value in status.items()
        ):
            return
        await self.write_status(stateful_set, status)

    def _look_again(self, key: Key, stateful_set: Object, found: Sequence[Object], status: Object) -> None:
        wait = stateful_set["spec"].get("minReadySeconds") or 0
        if self._features.waits_whole_periods:
            if wait and (status.get("availableReplicas") or 0) != stateful_pods.replicas(stateful_set):
                self.queue.add_after(key, wait)
            return
        times = (pods.available_in(pod, wait, self.clock.now()) for pod in found) if wait else ()
        pending = [seconds for seconds in times if seconds]
        if pending:
            self.queue.add_after(key, min(pending))

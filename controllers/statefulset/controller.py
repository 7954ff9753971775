"""The stateful set controller's loop. Behaviour of k8s.io/kubernetes/pkg/controller/statefulset, 1.36."""

from collections.abc import Callable, Sequence

from kubeskew.apimachinery.client.refs import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, STATEFUL_SETS
from kubeskew.apimachinery.golang.raw_extensions import RawObject
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.go_panic import Panic
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.controllers.framework import history, pods
from kubeskew.controllers.framework.base import ControllerContext, Key
from kubeskew.controllers.framework.history import Revisions
from kubeskew.controllers.framework.pod_controller import PodOwnerController
from kubeskew.controllers.statefulset import identity
from kubeskew.controllers.statefulset.claims import StatefulPods
from kubeskew.controllers.statefulset.features import StatefulSetFeatures
from kubeskew.controllers.statefulset.rollout import Rollout

_DEFAULT_HISTORY = 10


class StatefulSetController(PodOwnerController):
    name = "statefulset-controller"
    component = "statefulset-controller"
    ref = STATEFUL_SETS
    deletion_frees = False  # the name is free only when the pod is gone

    def __init__(self, context: ControllerContext) -> None:
        environment = context.environment
        self._features = features = StatefulSetFeatures.of(environment.version, environment.gates)
        super().__init__(
            context, waits_for_own_writes=features.waits_for_own_writes, match=features.owner_match
        )
        claims = context.informer(PERSISTENT_VOLUME_CLAIMS)
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
        )

    def selector(self, obj: Object) -> LabelSelector:
        return LabelSelector.from_object(obj["spec"].get("selector"))

    def selects(self, obj: Object) -> Callable[[Object], bool]:
        """Returns which pods the set wants: by their names, too."""
        matches = super().selects(obj)
        return lambda pod: matches(pod) and identity.is_member(obj, pod)

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
        live = {current["metadata"]["name"], update["metadata"]["name"], *map(identity.revision_of, found)}
        await self._truncate(stateful_set, history.unused(revisions, live), listed)
        self._look_again(key, stateful_set, found, status)

    # -- revisions

    async def _current_and_update(
        self, stateful_set: Object, revisions: list[Object]
    ) -> tuple[Object, Object, int]:
        """Returns the revision that is being left, the one of the present template, and collisions of
        names."""
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
        """Syncs again when the next ready pod becomes available."""
        wait = stateful_set["spec"].get("minReadySeconds") or 0
        if self._features.waits_whole_periods:
            if wait and (status.get("availableReplicas") or 0) != identity.replicas(stateful_set):
                self.queue.add_after(key, wait)
            return
        times = (pods.available_in(pod, wait, self.clock.now()) for pod in found) if wait else ()
        pending = [seconds for seconds in times if seconds]
        if pending:
            self.queue.add_after(key, min(pending))

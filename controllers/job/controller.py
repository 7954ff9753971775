"""The job controller's loop. Behaviour of k8s.io/kubernetes/pkg/controller/job, 1.36."""

import logging
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from kubeskew.apimachinery.client.refs import JOBS
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object, controller_of
from kubeskew.apimachinery.process.runtime import Panic
from kubeskew.apimachinery.selectors.labels import LabelSelector
from kubeskew.controllers.framework import pods
from kubeskew.controllers.framework.base import ControllerContext, Key, key_of
from kubeskew.controllers.framework.pod_control import is_namespace_terminating, slow_start
from kubeskew.controllers.framework.pod_controller import PodOwnerController
from kubeskew.controllers.job import conditions, failures, templates
from kubeskew.controllers.job.failures import Backoff
from kubeskew.controllers.job.features import JobFeatures
from kubeskew.controllers.job.state import State, Tracker, remove_finalizer
from kubeskew.controllers.job.templates import FINALIZER, for_index, is_tracked, prefix_for, template_of

log = logging.getLogger(__name__)

MOST_PODS = 500  # pods created or deleted in one sync
_OURS = "kubernetes.io/job-controller"
_TOO_MANY = "Too many succeeded pods running after completion count reached"
_MODES = (None, "NonIndexed", "Indexed")


class Orphan(NamedTuple):
    namespace: str
    pod: str
    swept: bool  # together with the others of a job that was deleted
    what: str = "orphan"  # never equal to a job's key


class JobController(PodOwnerController):
    name = "job-controller"
    component = "job-controller"
    ref = JOBS
    finalizers = (FINALIZER,)
    deletion_frees = False  # a pod that is being deleted has to be counted

    def __init__(self, context: ControllerContext) -> None:
        self._removing: dict[Key, set[str]] = {}  # uids of pods whose finalizer was removed
        self._backoff: dict[Key, Backoff] = {}
        self._ended: set[str] = set()  # uids of jobs that were written as ended, of which no event came yet
        self._features = JobFeatures.of(context.environment.gates)
        super().__init__(
            context,
            waits_for_own_writes=self._features.waits_for_own_writes,
            match=self._features.owner_match,
        )
        self.keeps_expectations = self._features.keeps_expectations
        self.pods.add_handler(self._orphan_seen, lambda _, pod: self._orphan_seen(pod))

    def selector(self, obj: Object) -> LabelSelector:
        return LabelSelector.from_object(obj["spec"].get("selector"))

    # -- event handlers

    def object_updated(self, old: Object, new: Object) -> None:
        if conditions.is_finished(new):
            self._ended.discard(new["metadata"]["uid"])
        if old["metadata"].get("generation") == new["metadata"].get("generation"):
            self.enqueue_for_pod(new)
        else:
            super().object_updated(old, new)

    def enqueue_for_pod(self, owner: Object) -> None:
        """Changes of pods, and of the status, are gathered."""
        self.queue.add_after(key_of(owner), self.environment.periods.job_batch)

    def object_deleted(self, old: Object) -> None:
        self._ended.discard(old["metadata"]["uid"])
        if not self._features.keeps_backoff:
            self._backoff.pop(key_of(old), None)
        super().object_deleted(old)
        namespace = old["metadata"]["namespace"]
        for pod in self.dependents.of(old):
            if pod["metadata"]["namespace"] == namespace:
                self._orphan_seen(pod, swept=True)

    def pod_changed(self, owner: Object, old: Object | None, new: Object) -> None:
        key = key_of(owner)
        if not is_tracked(new):
            self._removing.get(key, set()).discard(new["metadata"]["uid"])
        if pods.is_terminating(new) and old is not None:
            self.expectations.deletion_seen(key, key_of(new))

    def pod_gone(self, owner: Object, pod: Object) -> None:
        self._removing.get(key_of(owner), set()).discard(pod["metadata"]["uid"])

    def _orphan_seen(self, pod: Object, *, swept: bool = False) -> None:
        if is_tracked(pod) and self.owner_of(pod) is None and self._had_job(pod):
            self.queue.add(Orphan(*key_of(pod), swept))

    async def _release_orphan(self, key: Orphan, pod: Object) -> None:
        try:
            await remove_finalizer(self.client, pod)
        except (StatusError, *CONNECTION_ERRORS) as error:
            if not (key.swept and self._features.orphans_tried_once):
                raise
            log.info("%s: syncing orphan pod %s failed: %s", self.name, key.pod, error)

    @staticmethod
    def _had_job(pod: Object) -> bool:
        reference = controller_of(pod)
        return reference is None or (reference["apiVersion"], reference["kind"]) == (
            JOBS.api_version,
            JOBS.kind,
        )

    async def sync(self, key: Key | Orphan) -> None:
        if isinstance(key, Orphan):
            pod = self.pods.get(key.namespace, key.pod)
            if pod is not None and is_tracked(pod) and self.owner_of(pod) is None and self._had_job(pod):
                await self._release_orphan(key, pod)
            return
        self.own_writes.ensure_seen(key)
        job = self.objects.get(*key)
        if job is None:
            self.expectations.forget(key)
            self._removing.pop(key, None)
            self._backoff.pop(key, None)
            return
        if self._features.managed_by and job["spec"].get("managedBy") not in (None, _OURS):
            return
        if conditions.is_finished(job):
            self._backoff.pop(key, None)
            return
        if job["metadata"]["uid"] in self._ended:
            return
        if job["spec"].get("completionMode") not in _MODES:
            text = "Skipped Job sync because completion mode is unknown"
            self.recorder.event(job, "Warning", "UnknownCompletionMode", text)
            return
        await self._reconcile(key, job)

    # -- reconciliation

    async def _reconcile(self, key: Key, job: Object) -> None:
        may_act = self.expectations.satisfied(key)
        state = State(
            job,
            await self.claim_pods(job),
            frozenset(self._removing.get(key, ())),
            self._backoff.get(key, Backoff()),
            self.clock.now(),
            self._features,
        )
        failure, changed = None, False
        if state.finish is not None:
            deleted, failure = await self._delete(key, state, state.active)
            if not state.is_tracked:
                deleted = len(state.active)  # as upstream: assumed to be gone
                state.failed += deleted
            elif deleted < len(state.active) or not may_act:
                state.finish = None  # there may be pods that the informer does not show yet
            active = len(state.active) - deleted
        else:
            left = state.seconds_left()
            if left is not None:
                self.queue.add_after(key, left)
            active, failure, changed = await self._go_on(key, state, may_act=may_act)
        changed |= self._note_counts(state, active)
        written = partial(self.own_writes.note, key)
        tracker = Tracker(self.client, self._features, key, self._removing, state, written)
        try:
            ended = await tracker.track(changed=changed)
        finally:
            if tracker.written:
                self._backoff[key] = state.backoff
        if ended is not None:
            if not self._features.forgets_ended:
                self._ended.add(job["metadata"]["uid"])
            self._report_end(state, ended)
        if failure is not None:
            raise failure

    async def _go_on(self, key: Key, state: State, *, may_act: bool) -> tuple[int, Exception | None, bool]:
        """Returns (active pods afterwards, failure, change of conditions)."""
        active, failure = len(state.active), None
        acts = may_act and not state.job["metadata"].get("deletionTimestamp")
        if acts:
            active, failure = await self._manage(key, state)
        if state.is_complete(active):
            state.finish = state.completion()
            return active, failure, False
        return active, failure, acts and self._note_suspension(state)

    async def _manage(self, key: Key, state: State) -> tuple[int, Exception | None]:
        """Deletes surplus pods, or else creates missing ones; the result is (active pods afterwards,
        failure).
        """
        active = len(state.active)
        wanted = 0 if state.is_suspended else state.wanted_active()
        gone = self._too_many(state, max(0, active - wanted))[:MOST_PODS]
        if gone or state.is_suspended:
            deleted, failure = await self._delete(key, state, gone, uncounted=True)
            return active - deleted, failure
        ending = state.terminating if failures.replaces_failed_only(state.job) else 0
        missing = min(wanted - ending - active, MOST_PODS)
        if missing < 0 and active < wanted and self._features.panics_at_many_ending:
            raise Panic("runtime error: makeslice: len out of range")
        if missing <= 0:
            return active, None
        made, failure = await self._create(key, state, missing)
        if made is None:
            return 0 if self._features.none_active_in_backoff else active, None
        return active + made, failure

    def _too_many(self, state: State, at_least: int) -> list[Object]:
        gone: list[Object] = []
        left: Sequence[Object] = state.active
        if state.is_indexed:
            gone, left = templates.superfluous(state.active, state.completions or 0, state.now)
        if len(gone) < at_least:
            gone += pods.deletion_order(left, {}, state.now)[: at_least - len(gone)]
        return gone

    async def _delete(
        self, key: Key, state: State, chosen: Sequence[Object], *, uncounted: bool = False
    ) -> tuple[int, Exception | None]:
        """`uncounted` pods are not failures of the job; the number is of deleted pods."""
        if not chosen:
            return 0, None
        self.expectations.expect_deletions(key, [key_of(pod) for pod in chosen])
        try:
            if uncounted:
                await self._release(key, chosen)
        except (StatusError, *CONNECTION_ERRORS) as error:
            self.expectations.forget(key)
            return 0, error
        failure = await self.delete_pods(key, state.job, chosen)
        if failure is not None:
            return 0, failure
        state.ready -= sum(pods.is_ready(pod) for pod in chosen)
        state.terminating += len(chosen)
        return len(chosen), None

    async def _release(self, key: Key, chosen: Sequence[Object]) -> None:
        waiting = self._removing.setdefault(key, set())
        for pod in chosen:
            if is_tracked(pod):
                waiting.add(pod["metadata"]["uid"])
                try:
                    await remove_finalizer(self.client, pod, partial(self.own_writes.note, key))
                except BaseException:
                    waiting.discard(pod["metadata"]["uid"])
                    raise

    async def _create(self, key: Key, state: State, count: int) -> tuple[int | None, Exception | None]:
        """During the backoff the number of created pods is None."""
        chosen: list[int] = []
        wait = 0.0
        per_index = failures.per_index_limit(state.job) is not None
        if not per_index:
            wait = state.backoff.left(state.now)
        if state.is_indexed and not wait:
            chosen = state.pending_indexes(count)
            if per_index:
                chosen, wait = self._ready_indexes(state, chosen)
            count = len(chosen)
        if wait:
            self.queue.add_after(key, wait)
            return None, None
        if not count:
            return 0, None
        return await self._create_now(key, state, count, chosen)

    def _ready_indexes(self, state: State, wanted: Sequence[int]) -> tuple[list[int], float]:
        """The number is the seconds until the first index has no backoff, if all have one."""
        waits = {
            index: failures.index_backoff_left(state.replaceable[index], state.now)
            if index in state.replaceable
            else 0.0
            for index in wanted
        }
        ready = [index for index in wanted if not waits[index]]
        return ready, 0.0 if ready or not waits else min(waits.values())

    async def _create_now(
        self, key: Key, state: State, count: int, chosen: Sequence[int]
    ) -> tuple[int, Exception | None]:
        label = self._features.index_label
        template = template_of(
            state.job, indexed=state.is_indexed, index_label=label, tracked=state.is_tracked
        )
        self.expectations.expect_creations(key, count)
        left, name = iter(chosen), state.job["metadata"]["name"]

        async def create() -> None:
            if not state.is_indexed:
                await self.create_pod(template, state.job)
                return
            index = next(left)
            counts = (
                failures.next_failure_counts(state.job, state.replaceable.get(index))
                if failures.per_index_limit(state.job) is not None
                else {}
            )
            one = for_index(template, name, index, counts, index_label=label)
            await self.create_pod(one, state.job, prefix_for(name, index))

        made, errors = await slow_start(count, 1, create)
        for _ in range(count - made):
            self.expectations.creation_seen(key)  # its event will not come
        errors = [error for error in errors if not is_namespace_terminating(error)]
        return made, errors[0] if errors else None

    # -- status

    def _note_suspension(self, state: State) -> bool:
        present = state.status.get("conditions") or []
        if state.is_suspended:
            content = ("True", "JobSuspended", "Job suspended")
        else:
            content = ("False", "JobResumed", "Job resumed")
        changed, is_new = conditions.ensured(present, conditions.SUSPENDED, *content, state.now)
        if is_new:
            state.status["conditions"] = changed
            reason = "Suspended" if state.is_suspended else "Resumed"
            self.recorder.event(state.job, "Normal", reason, content[2])
            if not state.is_suspended:
                state.status["startTime"] = timestamp(state.now)
        return is_new

    def _note_counts(self, state: State, active: int) -> bool:
        """True if the counts change the status."""
        counts: Object = {"active": active}
        if self._features.shows_ready:
            counts["ready"] = state.ready
        if self._features.shows_terminating:
            counts["terminating"] = state.terminating
        before = state.job.get("status") or {}
        changed = (before.get("active") or 0) != active
        changed |= any(before.get(name) != counts[name] for name in counts if name != "active")
        state.status |= counts
        if not active:
            state.status.pop("active")
        return changed or state.status.get("startTime") != before.get("startTime")

    def _report_end(self, state: State, ended: Object) -> None:
        job = state.job
        if ended["type"] != conditions.COMPLETE:
            self.recorder.event(job, "Warning", ended["reason"], ended["message"])
            return
        if state.completions is not None and (state.status.get("succeeded") or 0) > state.completions:
            self.recorder.event(job, "Warning", "TooManySucceededPods", _TOO_MANY)
        self.recorder.event(job, "Normal", "Completed", "Job completed")

"""Counts ended pods exactly once: their finalizer is removed when the status has counted them.

Pods first are "uncounted" in the status, then lose their finalizer, and are then added to the counts.

Behaviour of trackJobStatusAndRemoveFinalizers (k8s.io/kubernetes/pkg/controller/job), 1.36.
"""

import asyncio
from collections.abc import Callable, Sequence

from kubeskew.apimachinery.client.refs import JOBS, PODS, Ref
from kubeskew.apimachinery.client.rest import STRATEGIC_PATCH, APIClient
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework import pods
from kubeskew.controllers.framework.base import Key
from kubeskew.controllers.job import conditions, failures, indexes
from kubeskew.controllers.job.features import JobFeatures
from kubeskew.controllers.job.state import State
from kubeskew.controllers.job.templates import FINALIZER, is_tracked

_MOST_UNCOUNTED = 500


Written = Callable[[Ref, Object], None]


async def remove_finalizer(client: APIClient, pod: Object, written: Written = lambda *_: None) -> bool:
    """Removes the finalizer; returns False if the pod was gone already. `written` is told the answer."""
    metadata = pod["metadata"]
    patch = {"metadata": {"uid": metadata["uid"], "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    try:
        changed = await client.patch(PODS, metadata["name"], metadata["namespace"], patch, STRATEGIC_PATCH)
    except StatusError as error:
        if error.code in (404, 422):  # 422: another pod of that name by now
            return False
        raise
    written(PODS, changed)
    return True


class Tracker:
    """Writes the status of one job as its pods are counted. `written` is told of each write."""

    def __init__(
        self,
        client: APIClient,
        features: JobFeatures,
        key: Key,
        removing: dict[Key, set[str]],
        state: State,
        written: Written,
    ) -> None:
        self._client = client
        self._tell = written
        self._features = features
        self._key = key
        self._removing = removing
        self._state = state
        self._job = state.job
        self.written = False  # the pods that ended are in the status
        self._tracked = {pod["metadata"]["uid"] for pod in state.pods if state.awaits_counting(pod)}

    async def track(self, *, changed: bool) -> Object | None:
        """Counts what has ended; `changed` if the status has to be written anyway.

        Returns the condition that ended the job, if one did.
        """
        state = self._state
        if not state.is_tracked:
            return await self._write_counts(changed=changed)
        changed |= self._clean_uncounted()
        done, counted, overflow = self._count()
        changed |= counted
        changed |= self._write_indexes()
        finish = state.finish
        announced, finish = self._announce(finish)
        if changed or announced:
            await self._write()
        self.written = True
        failure = await self._remove_finalizers(done)
        changed = self._clean_uncounted()
        if failure is not None:
            if changed:
                await self._write()
            raise failure
        ended = finish is not None and not overflow and self._end(finish)
        if changed or ended:
            await self._write()
        return finish if ended else None

    async def _write_counts(self, *, changed: bool) -> Object | None:
        """Writes counts of the existing pods, and releases pods that a later release has tracked."""
        state = self._state
        failure = await self._remove_finalizers([pod for pod in state.pods if is_tracked(pod)])
        if failure is not None:
            raise failure
        counts = {"succeeded": state.succeeded, "failed": state.failed}
        changed |= any((state.status.get(name) or 0) != count for name, count in counts.items())
        state.status |= counts
        changed |= self._write_indexes()
        ended = state.finish is not None and self._end(state.finish)
        if changed or ended:
            await self._write()
        self.written = True
        return state.finish if ended else None

    # -- counting

    def _count(self) -> tuple[list[Object], bool, bool]:
        """Returns (pods to release, whether the status changed, whether some pods have to wait for the
        next time)."""
        state, done, changed, indexed = self._state, [], False, set()
        ordered = state.pods
        if state.is_indexed:
            ordered = sorted(ordered, key=lambda pod: indexes.index_of(pod) or 0)
        for pod in ordered:
            if not state.awaits_counting(pod) or not self._may_release(pod):
                continue
            uid = pod["metadata"]["uid"]
            lost = failures.is_failed(pod, state.job)
            if pods.phase(pod) == "Succeeded" and uid not in state.uncounted["failed"]:
                index = indexes.valid_index(pod, state.completions or 0)
                if state.is_indexed:
                    if index is not None and index not in state.before:
                        indexed.add(index)
                elif uid not in state.uncounted["succeeded"]:
                    state.uncounted["succeeded"].append(uid)
                    changed = True
            elif lost or self._is_failing():
                if self._counts_as_failed(pod):
                    state.uncounted["failed"].append(uid)
                    changed = True
            elif state.finish is None and not state.job["metadata"].get("deletionTimestamp"):
                continue
            done.append(pod)
            if len(indexed) + sum(map(len, state.uncounted.values())) >= _MOST_UNCOUNTED:
                return done, True, True
        return done, changed or bool(indexed), False

    def _may_release(self, pod: Object) -> bool:
        """Returns whether a pod may go: a failed one is kept until its index has a new one, which
        continues its count."""
        state = self._state
        if state.finish is not None or state.job["metadata"].get("deletionTimestamp"):
            return True
        index = indexes.index_of(pod)
        kept = state.replaceable.get(index) if index is not None else None
        return kept is None or kept["metadata"]["uid"] != pod["metadata"]["uid"]

    def _is_failing(self) -> bool:
        finish = self._state.finish
        return finish is not None and finish["type"] != conditions.SUCCESS_CRITERIA_MET

    def _counts_as_failed(self, pod: Object) -> bool:
        state = self._state
        if pod["metadata"]["uid"] in state.uncounted["failed"] or not state.has_valid_index(pod):
            return False
        return failures.match(state.job, pod).counts

    def _clean_uncounted(self) -> bool:
        """Moves pods without the finalizer from "uncounted" to the counts."""
        state, changed = self._state, False
        for name, uids in state.uncounted.items():
            left = [uid for uid in uids if uid in self._tracked]
            if len(left) < len(uids):
                changed = True
                if name == "failed" or not state.is_indexed:
                    state.status[name] = (state.status.get(name) or 0) + len(uids) - len(left)
                state.uncounted[name] = left
        return changed

    def _write_indexes(self) -> bool:
        state = self._state
        if not state.is_indexed:
            return False
        wanted: Object = {"completedIndexes": indexes.show(state.succeeded_indexes)}
        state.status["succeeded"] = len(state.succeeded_indexes)
        if state.failed_indexes is not None:
            wanted["failedIndexes"] = indexes.show(state.failed_indexes)
        changed = any(state.status.get(name, "" if name == "completedIndexes" else None) != value
                      for name, value in wanted.items())  # fmt: skip
        state.status |= wanted
        return changed

    # -- the end

    def _announce(self, finish: Object | None) -> tuple[bool, Object | None]:
        """Returns (whether the status now announces the job's end, the condition that will end it)."""
        state, announced = self._state, False
        if finish is None or finish["type"] not in (
            conditions.FAILURE_TARGET,
            conditions.SUCCESS_CRITERIA_MET,
        ):
            return False, finish
        present = state.status.get("conditions") or []
        if not any(condition["type"] == finish["type"] for condition in present):
            state.status["conditions"] = [*present, finish]
            announced = True
        return announced, conditions.final(finish, state.now)

    def _end(self, finish: Object) -> bool:
        """Sets the final condition in the status, unless there are pods to wait for."""
        state = self._state
        if any(state.uncounted.values()):
            return False
        if self._features.delays_final_condition and state.terminating:
            return False
        state.status["conditions"] = [*(state.status.get("conditions") or []), finish]
        if finish["type"] == conditions.COMPLETE:
            state.status["completionTime"] = finish["lastTransitionTime"]
        return True

    # -- writing

    async def _write(self) -> None:
        state = self._state
        status = {name: value for name, value in state.status.items() if value is not None}
        status.pop("uncountedTerminatedPods", None)
        if state.is_tracked:
            uncounted = {name: uids for name, uids in state.uncounted.items() if uids}
            status["uncountedTerminatedPods"] = uncounted
        self._job = await self._client.update(JOBS, {**self._job, "status": status}, "status")
        self._tell(JOBS, self._job)

    async def _remove_finalizers(self, done: Sequence[Object]) -> Exception | None:
        """Releases the pods; returns the last failure."""
        if not done:
            return None
        waiting = self._removing.setdefault(self._key, set())
        waiting |= {pod["metadata"]["uid"] for pod in done}
        results = await asyncio.gather(
            *(remove_finalizer(self._client, pod, self._tell) for pod in done), return_exceptions=True
        )
        failure = None
        for pod, result in zip(done, results, strict=True):
            uid = pod["metadata"]["uid"]
            if isinstance(result, BaseException):
                waiting.discard(uid)
                failure = result if isinstance(result, Exception) else failure
                continue
            self._tracked.discard(uid)
            if not result:
                waiting.discard(uid)  # no event will come
        return failure

"""Counts a job's pods at one moment. Ended pods count exactly once: their finalizer is removed when the
status has counted them.

Pods first are "uncounted" in the status, then lose their finalizer, and are then added to the counts.

Sources: the first half of syncJob (k8s.io/kubernetes/pkg/controller/job), 1.36;
trackJobStatusAndRemoveFinalizers (k8s.io/kubernetes/pkg/controller/job), 1.36.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from kubeskew.apimachinery.client.refs import JOBS, PODS, Ref
from kubeskew.apimachinery.client.rest import STRATEGIC_PATCH, APIClient
from kubeskew.apimachinery.clock import parse_timestamp, timestamp
from kubeskew.apimachinery.conditions import find_condition, is_condition_true
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.controllers.framework import pods
from kubeskew.controllers.framework.base import Key
from kubeskew.controllers.job import conditions, failures, templates
from kubeskew.controllers.job.failures import Backoff
from kubeskew.controllers.job.features import JobFeatures
from kubeskew.controllers.job.templates import FINALIZER, is_marked, is_tracked

_EXCEEDED = "Job has reached the specified backoff limit"
_LATE = "Job was active longer than specified deadline"
_TOO_MANY_INDEXES = "Job has exceeded the specified maximal number of failed indexes"
_MOST_UNCOUNTED = 500


Written = Callable[[Ref, Object], None]


class State:
    """Counts the pods of a job; `status` is the new status of this reconciliation."""

    def __init__(
        self,
        job: Object,
        found: Sequence[Object],
        removing: Collection[str],
        backoff: Backoff,
        now: datetime,
        features: JobFeatures,
    ) -> None:
        """`removing` are uids of pods whose finalizer was removed, although the informer does not show it
        yet.
        """
        self.job, self.pods, self.now = job, list(found), now
        self.spec: Object = job["spec"]
        self.status: Object = dict(job.get("status") or {})
        self._removing = removing
        self._features = features
        self.is_tracked = is_marked(job) or not features.counts_marked
        counted = self.status if self.is_tracked else {}  # else all existing pods are counted again
        uncounted = counted.get("uncountedTerminatedPods") or {}
        self.uncounted = {name: list(uncounted.get(name) or ()) for name in ("succeeded", "failed")}
        self.active = [pod for pod in found if pods.is_active(pod)]
        self.ready = sum(pods.is_ready(pod) for pod in self.active)
        self.terminating = sum(pods.is_terminating(pod) and not is_terminal(pod) for pod in found)
        self.is_indexed = self.spec.get("completionMode") == "Indexed"
        self.completions: int | None = self.spec.get("completions")
        new_succeeded = self._fresh("succeeded", lambda pod: pods.phase(pod) == "Succeeded")
        new_failed = self._fresh("failed", self._has_failed)
        self.backoff = (backoff if self.is_tracked else Backoff()).after(new_succeeded, new_failed)
        self.failed = int(counted.get("failed") or 0) + len(self.uncounted["failed"])
        self.failed += sum(failures.match(job, pod).counts for pod in new_failed)
        self.succeeded = int(counted.get("succeeded") or 0) + len(self.uncounted["succeeded"])
        self.succeeded += len(new_succeeded)
        self.before: set[int] = set()  # succeeded indexes in the status
        self.succeeded_indexes: set[int] = set()
        self.failed_indexes: set[int] | None = None
        self.replaceable: dict[int, Object] = {}  # failed pods by index, until their replacement is created
        if not self.is_suspended and not self.status.get("startTime"):
            self.status["startTime"] = timestamp(now)
        if self.is_indexed:
            self._count_indexes()
        self.finish: Object | None = self._finish()

    # -- the specification

    @property
    def is_suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    @property
    def parallelism(self) -> int:
        wanted = self.spec.get("parallelism")
        return 1 if wanted is None else int(wanted)

    def wanted_active(self) -> int:
        if self.completions is None:
            return len(self.active) if self.succeeded else self.parallelism
        return max(0, min(self.completions - self.succeeded, self.parallelism))

    def is_complete(self, active: int) -> bool:
        if active:
            return False
        return self.succeeded > 0 if self.completions is None else self.succeeded >= self.completions

    # -- counting

    def awaits_counting(self, pod: Object) -> bool:
        if not self.is_tracked:
            return True
        return is_tracked(pod) and pod["metadata"]["uid"] not in self._removing

    def _has_failed(self, pod: Object) -> bool:
        return failures.is_failed(pod, self.job) if self.is_tracked else pods.phase(pod) == "Failed"

    def has_valid_index(self, pod: Object) -> bool:
        return not self.is_indexed or templates.valid_index(pod, self.completions or 0) is not None

    def _fresh(self, kind: str, ended: Callable[[Object], bool]) -> list[Object]:
        return [
            pod
            for pod in self.pods
            if self.awaits_counting(pod)
            and pod["metadata"]["uid"] not in self.uncounted[kind]
            and self.has_valid_index(pod)
            and ended(pod)
        ]

    def _count_indexes(self) -> None:
        completions = self.completions or 0
        if self.is_tracked:
            self.before = templates.parse(self.status.get("completedIndexes"), completions)
        tracked = [
            (templates.valid_index(pod, completions), pod) for pod in self.pods if self.awaits_counting(pod)
        ]
        valid = [(index, pod) for index, pod in tracked if index is not None]
        now = {index for index, pod in valid if pods.phase(pod) == "Succeeded"}
        self.succeeded_indexes = self.before | now
        self.succeeded = len(self.succeeded_indexes)
        if failures.per_index_limit(self.job) is None:
            return
        lost = [(index, pod) for index, pod in valid if failures.is_failed(pod, self.job)]
        self.failed_indexes = templates.parse(self.status.get("failedIndexes"), completions)
        self.failed_indexes |= {index for index, pod in lost if failures.fails_index(self.job, pod)}
        busy = {templates.index_of(pod) for pod in self.active}
        done = busy | self.succeeded_indexes | self.failed_indexes
        for index, pod in lost:
            if index not in done:
                known = self.replaceable.get(index)
                if known is None or failures.index_failures(known) <= failures.index_failures(pod):
                    self.replaceable[index] = pod

    def pending_indexes(self, count: int) -> list[int]:
        completions = self.completions or 0
        taken = self.succeeded_indexes | (self.failed_indexes or set())
        taken |= {index for pod in self.active if (index := templates.index_of(pod)) is not None}
        if failures.replaces_failed_only(self.job):
            ending = (pod for pod in self.pods if pods.is_terminating(pod) and not is_terminal(pod))
            taken |= {index for pod in ending if (index := templates.index_of(pod)) is not None}
        return templates.pending(taken, completions, count)

    # -- the end

    def _finish(self) -> Object | None:
        """None if the job goes on."""
        for kind in (conditions.SUCCESS_CRITERIA_MET, conditions.FAILURE_TARGET):
            if is_condition_true(self.job, kind):
                return find_condition(self.job, kind)
        if message := failures.fail_message(self.job, self.pods):
            return conditions.new(conditions.FAILURE_TARGET, "PodFailurePolicy", message, self.now)
        limit = self.spec.get("backoffLimit")
        if (limit is not None and self.failed > limit) or failures.restarts_exceed(self.job, self.pods):
            return self._failure("BackoffLimitExceeded", _EXCEEDED)
        left = self.seconds_left()
        if left is not None and left <= 0:
            return self._failure("DeadlineExceeded", _LATE)
        return self._finish_by_indexes()

    def _finish_by_indexes(self) -> Object | None:
        if not self.is_indexed:
            return None
        lost = self.failed_indexes or set()
        most = self.spec.get("maxFailedIndexes")
        if most is not None and len(lost) > most:
            return self._failure("MaxFailedIndexesExceeded", _TOO_MANY_INDEXES)
        if lost and len(lost) + len(self.succeeded_indexes) >= (self.completions or 0):
            return self._failure("FailedIndexes", "Job has failed indexes")
        judged = self._features.success_policies
        if judged and (message := failures.success_message(self.job, self.succeeded_indexes)):
            kind = conditions.SUCCESS_CRITERIA_MET
            return conditions.new(kind, "SuccessPolicy", message, self.now)
        return None

    def _failure(self, reason: str, message: str) -> Object:
        delayed = self._features.delays_final_condition
        kind = conditions.FAILURE_TARGET if delayed else conditions.FAILED
        return conditions.new(kind, reason, message, self.now)

    def completion(self) -> Object:
        delayed = self._features.delays_final_condition
        kind = conditions.SUCCESS_CRITERIA_MET if delayed else conditions.COMPLETE
        if not self._features.reasons_completion:
            return conditions.new(kind, "", "", self.now)
        message = "Reached expected number of succeeded pods"
        return conditions.new(kind, "CompletionsReached", message, self.now)

    def seconds_left(self) -> float | None:
        """None without an active deadline."""
        deadline = self.spec.get("activeDeadlineSeconds")
        if deadline is None or self.is_suspended or not self.status.get("startTime"):
            return None
        gone = (self.now - parse_timestamp(self.status["startTime"])).total_seconds()
        return float(deadline) - gone


async def remove_finalizer(client: APIClient, pod: Object, written: Written = lambda *_: None) -> bool:
    """False if the pod was gone already; `written` receives the server's response."""
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
    """Counting pods writes the status; `written` receives each response."""

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
        self._on_write = written
        self._features = features
        self._key = key
        self._removing = removing
        self._state = state
        self._job = state.job
        self.written = False  # the pods that ended are in the status
        self._tracked = {pod["metadata"]["uid"] for pod in state.pods if state.awaits_counting(pod)}

    async def track(self, *, changed: bool) -> Object | None:
        """Counts ended pods; with `changed` the status is written in any case.

        The result is the condition that ended the job, or None.
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
        """Writes the numbers of existing pods, and releases pods that a later release has tracked."""
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
        """The result is (pods to release, change of the status, pods that have to wait for the next time)."""
        state, done, changed, indexed = self._state, [], False, set()
        ordered = state.pods
        if state.is_indexed:
            ordered = sorted(ordered, key=lambda pod: templates.index_of(pod) or 0)
        for pod in ordered:
            if not state.awaits_counting(pod) or not self._may_release(pod):
                continue
            uid = pod["metadata"]["uid"]
            lost = failures.is_failed(pod, state.job)
            if pods.phase(pod) == "Succeeded" and uid not in state.uncounted["failed"]:
                index = templates.valid_index(pod, state.completions or 0)
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
        """Failed pods are kept until their index has a new one, which continues the count."""
        state = self._state
        if state.finish is not None or state.job["metadata"].get("deletionTimestamp"):
            return True
        index = templates.index_of(pod)
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
        wanted: Object = {"completedIndexes": templates.show(state.succeeded_indexes)}
        state.status["succeeded"] = len(state.succeeded_indexes)
        if state.failed_indexes is not None:
            wanted["failedIndexes"] = templates.show(state.failed_indexes)
        changed = any(state.status.get(name, "" if name == "completedIndexes" else None) != value
                      for name, value in wanted.items())  # fmt: skip
        state.status |= wanted
        return changed

    # -- the end

    def _announce(self, finish: Object | None) -> tuple[bool, Object | None]:
        """Returns (is the announcement new, condition that will end the job)."""
        state, announced = self._state, False
        if finish is None or finish["type"] not in (
            conditions.FAILURE_TARGET,
            conditions.SUCCESS_CRITERIA_MET,
        ):
            return False, finish
        present = state.status.get("conditions") or []
        if find_condition({"status": state.status}, finish["type"]) is None:
            state.status["conditions"] = [*present, finish]
            announced = True
        return announced, conditions.final(finish, state.now)

    def _end(self, finish: Object) -> bool:
        """False while there are pods to wait for."""
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
        self._on_write(JOBS, self._job)

    async def _remove_finalizers(self, done: Sequence[Object]) -> Exception | None:
        """Only the last failure is returned."""
        if not done:
            return None
        waiting = self._removing.setdefault(self._key, set())
        waiting |= {pod["metadata"]["uid"] for pod in done}
        results = await asyncio.gather(
            *(remove_finalizer(self._client, pod, self._on_write) for pod in done), return_exceptions=True
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

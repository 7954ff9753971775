"""A job and its pods at one moment, counted.

Behaviour of the first half of syncJob (k8s.io/kubernetes/pkg/controller/job), 1.36.
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from kubeskew.apimachinery.clock import parse_timestamp, timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework import pods
from kubeskew.controllers.job import conditions, failures, indexes
from kubeskew.controllers.job.failures import Backoff
from kubeskew.controllers.job.features import JobFeatures
from kubeskew.controllers.job.templates import is_marked, is_tracked

_EXCEEDED = "Job has reached the specified backoff limit"
_LATE = "Job was active longer than specified deadline"
_TOO_MANY_INDEXES = "Job has exceeded the specified maximal number of failed indexes"


class State:
    """A job with its counted pods; `status` is the new status of this reconciliation."""

    def __init__(
        self,
        job: Object,
        found: Sequence[Object],
        removing: Collection[str],
        backoff: Backoff,
        now: datetime,
        features: JobFeatures,
    ) -> None:
        """`removing`: uids of pods whose finalizer was removed, before the informer shows it."""
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
        self.terminating = sum(pods.is_terminating(pod) and not pods.is_terminal(pod) for pod in found)
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
        self.replaceable: dict[int, Object] = {}  # failed pods by index, until their replacement is made
        if not self.is_suspended and not self.status.get("startTime"):
            self.status["startTime"] = timestamp(now)
        if self.is_indexed:
            self._count_indexes()
        self.finish: Object | None = self._finish()

    # -- what the job asks for

    @property
    def is_suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    @property
    def parallelism(self) -> int:
        wanted = self.spec.get("parallelism")
        return 1 if wanted is None else int(wanted)

    def wanted_active(self) -> int:
        """Returns how many pods should be active now."""
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
        return not self.is_indexed or indexes.valid_index(pod, self.completions or 0) is not None

    def _fresh(self, kind: str, ended: Callable[[Object], bool]) -> list[Object]:
        """Returns the ended pods that are not in the status yet."""
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
            self.before = indexes.parse(self.status.get("completedIndexes"), completions)
        tracked = [
            (indexes.valid_index(pod, completions), pod) for pod in self.pods if self.awaits_counting(pod)
        ]
        valid = [(index, pod) for index, pod in tracked if index is not None]
        now = {index for index, pod in valid if pods.phase(pod) == "Succeeded"}
        self.succeeded_indexes = self.before | now
        self.succeeded = len(self.succeeded_indexes)
        if failures.per_index_limit(self.job) is None:
            return
        lost = [(index, pod) for index, pod in valid if failures.is_failed(pod, self.job)]
        self.failed_indexes = indexes.parse(self.status.get("failedIndexes"), completions)
        self.failed_indexes |= {index for index, pod in lost if failures.fails_index(self.job, pod)}
        busy = {indexes.index_of(pod) for pod in self.active}
        done = busy | self.succeeded_indexes | self.failed_indexes
        for index, pod in lost:
            if index not in done:
                known = self.replaceable.get(index)
                if known is None or failures.index_failures(known) <= failures.index_failures(pod):
                    self.replaceable[index] = pod

    def pending_indexes(self, count: int) -> list[int]:
        completions = self.completions or 0
        taken = self.succeeded_indexes | (self.failed_indexes or set())
        taken |= {index for pod in self.active if (index := indexes.index_of(pod)) is not None}
        if failures.replaces_failed_only(self.job):
            ending = (pod for pod in self.pods if pods.is_terminating(pod) and not pods.is_terminal(pod))
            taken |= {index for pod in ending if (index := indexes.index_of(pod)) is not None}
        return indexes.pending(taken, completions, count)

    # -- how it ends

    def _finish(self) -> Object | None:
        """Returns the condition that ends the job, None if it goes on."""
        for kind in (conditions.SUCCESS_CRITERIA_MET, conditions.FAILURE_TARGET):
            if conditions.holds(self.job, kind):
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
        """Returns the condition of a job whose pods have all succeeded."""
        delayed = self._features.delays_final_condition
        kind = conditions.SUCCESS_CRITERIA_MET if delayed else conditions.COMPLETE
        if not self._features.reasons_completion:
            return conditions.new(kind, "", "", self.now)
        message = "Reached expected number of succeeded pods"
        return conditions.new(kind, "CompletionsReached", message, self.now)

    def seconds_left(self) -> float | None:
        """Returns the seconds until the active deadline, None if there is none."""
        deadline = self.spec.get("activeDeadlineSeconds")
        if deadline is None or self.is_suspended or not self.status.get("startTime"):
            return None
        gone = (self.now - parse_timestamp(self.status["startTime"])).total_seconds()
        return float(deadline) - gone

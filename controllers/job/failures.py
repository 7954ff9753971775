"""Failures of a job's pods, their effect on the job, and the backoff. Pure functions.

Behaviour of k8s.io/kubernetes/pkg/controller/job/{pod_failure_policy,backoff_utils,success_policy}.go, 1.36.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from kubeskew.apimachinery.client.workqueue import backoff_seconds
from kubeskew.apimachinery.clock import later, parse_timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.periods import DEFAULT_PERIODS
from kubeskew.controllers.framework import pods
from kubeskew.controllers.job import templates

FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"


class Match(NamedTuple):
    """Only the first matching rule counts; `action` is empty if none matches."""

    action: str = ""
    message: str = ""  # why the job fails, for FailJob

    @property
    def counts(self) -> bool:
        return self.action != "Ignore"


def replaces_failed_only(job: Object) -> bool:
    """Terminating pods are replaced only when they have ended."""
    spec = job["spec"]
    return spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None


def is_failed(pod: Object, job: Object) -> bool:
    if pods.phase(pod) == "Failed":
        return True
    if replaces_failed_only(job):
        return False
    # An orphan may never get the phase Failed.
    return pods.is_terminating(pod) and pods.phase(pod) != "Succeeded"


# -- pod failure policy


def match(job: Object, pod: Object) -> Match:
    for position, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        if rule.get("onExitCodes") is not None:
            why = _by_exit_code(rule["onExitCodes"], pod)
        else:
            why = _by_condition(rule.get("onPodConditions") or (), pod)
        if why:
            action = rule["action"]
            return Match(action, f"{why} matching {action} rule at index {position}")
    return Match()


def _named(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _by_exit_code(rule: Object, pod: Object) -> str:
    status = pod.get("status") or {}
    for container_status in [
        *(status.get("containerStatuses") or ()),
        *(status.get("initContainerStatuses") or ()),
    ]:
        ended = (container_status.get("state") or {}).get("terminated")
        if ended is None or rule.get("containerName") not in (None, container_status["name"]):
            continue
        code = ended.get("exitCode") or 0
        if code and (code in (rule.get("values") or ())) == (rule.get("operator") == "In"):
            return f"Container {container_status['name']} for pod {_named(pod)} failed with exit code {code}"
    return ""


def _by_condition(patterns: Iterable[Object], pod: Object) -> str:
    wanted = {(pattern["type"], pattern.get("status", "True")) for pattern in patterns}
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if (condition["type"], condition["status"]) in wanted:
            return f"Pod {_named(pod)} has condition {condition['type']}"
    return ""


def fail_message(job: Object, found: Iterable[Object]) -> str:
    """Empty if no FailJob rule ends the job."""
    if job["spec"].get("podFailurePolicy") is None:
        return ""
    matches = (match(job, pod) for pod in found if is_failed(pod, job))
    return next((rule.message for rule in matches if rule.action == "FailJob"), "")


# -- success policy


def success_message(job: Object, succeeded: set[int]) -> str:
    """Empty if no rule of the success policy is met."""
    completions = job["spec"].get("completions") or 0
    for position, rule in enumerate((job["spec"].get("successPolicy") or {}).get("rules") or ()):
        wanted = succeeded
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is not None:
            required = templates.parse(rule["succeededIndexes"], completions)
            wanted = succeeded & required
            count = len(required) if count is None else count
        if count is not None and len(wanted) >= count:
            return f"Matched rules at index {position}"
    return ""


# -- limits


def restarts_exceed(job: Object, found: Iterable[Object]) -> bool:
    """Restarts of containers count as failures only with restartPolicy OnFailure."""
    spec = job["spec"]
    if ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    names = ("initContainerStatuses", "containerStatuses")
    total = sum(
        container_status.get("restartCount") or 0
        for pod in found
        if pods.phase(pod) in ("Running", "Pending")
        for name in names
        for container_status in (pod.get("status") or {}).get(name) or ()
    )
    limit = spec.get("backoffLimit") or 0
    return total > 0 if limit == 0 else total >= limit


def per_index_limit(job: Object) -> int | None:
    limit = job["spec"].get("backoffLimitPerIndex")
    return None if limit is None else int(limit)


def index_failures(pod: Object, name: str = FAILURE_COUNT) -> int:
    text = str((pod["metadata"].get("annotations") or {}).get(name, ""))
    return int(text) if text.isdigit() else 0


def fails_index(job: Object, pod: Object) -> bool:
    found = match(job, pod)
    if found.action == "FailIndex":
        return True
    return found.counts and index_failures(pod) >= (per_index_limit(job) or 0)


def next_failure_counts(job: Object, replaced: Object | None) -> dict[str, str]:
    if replaced is None:
        return {FAILURE_COUNT: "0"}
    counted, ignored = index_failures(replaced), index_failures(replaced, IGNORED_COUNT)
    if match(job, replaced).counts:
        counted += 1
    else:
        ignored += 1
    return {FAILURE_COUNT: str(counted)} | ({IGNORED_COUNT: str(ignored)} if ignored else {})


# -- waiting


class Backoff(NamedTuple):
    """A job's failures in a row, and the time of the last one."""

    failures: int = 0
    last: datetime | None = None

    def after(self, succeeded: Sequence[Object], failed: Sequence[Object]) -> "Backoff":
        """`succeeded` and `failed` have ended since."""
        if not failed and not succeeded:
            return self
        ends = sorted(finished_at(pod) for pod in failed)
        if not succeeded:
            return Backoff(self.failures + len(failed), max([*ends, *([self.last] if self.last else [])]))
        success = max(finished_at(pod) for pod in succeeded)
        newer = [end for end in ends if end > success]
        return Backoff(len(newer), newer[-1]) if newer else Backoff()

    def left(self, now: datetime) -> float:
        """In seconds."""
        if not self.failures or self.last is None:
            return 0.0
        wait = backoff_seconds(
            DEFAULT_PERIODS.job_backoff_first, self.failures - 1, DEFAULT_PERIODS.job_backoff_longest
        )
        return max(0.0, wait - (now - self.last).total_seconds())


def index_backoff_left(replaced: Object, now: datetime) -> float:
    failures = 1 + index_failures(replaced) + index_failures(replaced, IGNORED_COUNT)
    return Backoff(failures, finished_at(replaced)).left(now)


def finished_at(pod: Object) -> datetime:
    """Estimates the end from conditions or the deletion if a container has no end."""
    status, metadata = pod.get("status") or {}, pod["metadata"]
    ended = [
        (container_status.get("state") or {}).get("terminated")
        for container_status in status.get("containerStatuses") or ()
    ]
    times = [state["finishedAt"] for state in ended if state is not None and state.get("finishedAt")]
    if times and len(times) == len(ended):
        return max(parse_timestamp(text) for text in times)
    ready = find_condition(pod, "Ready")
    if ready is not None and ready["status"] == "False" and ready.get("lastTransitionTime"):
        return parse_timestamp(ready["lastTransitionTime"])
    if metadata.get("deletionTimestamp"):
        grace = metadata.get("deletionGracePeriodSeconds") or 0
        return later(parse_timestamp(metadata["deletionTimestamp"]), -grace)
    return parse_timestamp(metadata["creationTimestamp"])

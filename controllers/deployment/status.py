"""Computes a deployment's status: counts, conditions, and whether the rollout progresses.

Reasons and messages of k8s.io/kubernetes/pkg/controller/deployment/{sync,progress}.go, 1.36.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from kubeskew.apimachinery.clock import parse_timestamp, timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.deployment.arithmetic import max_unavailable, replicas, reported, total

NO_LIMIT = 2**31 - 1
NEW_AVAILABLE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
PAUSED = "DeploymentPaused"


def new_condition(kind: str, status: str, reason: str, message: str, now: datetime) -> Object:
    moment = timestamp(now)
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": moment,
        "lastTransitionTime": moment,
        "reason": reason,
        "message": message,
    }


def with_updated_condition(conditions: Sequence[Object], new: Object) -> list[Object]:
    """Returns the conditions with `new` last, without the one of its type; as they are if status and reason
    are the same (SetDeploymentCondition)."""
    for present in conditions:
        if present["type"] != new["type"] or present["status"] != new["status"]:
            continue
        if present.get("reason") == new["reason"]:
            return list(conditions)
        new = {**new, "lastTransitionTime": present["lastTransitionTime"]}
    return [*without_condition(conditions, new["type"]), new]


def without_condition(conditions: Sequence[Object], kind: str) -> list[Object]:
    return [present for present in conditions if present["type"] != kind]


def has_deadline(deployment: Object) -> bool:
    return deployment["spec"].get("progressDeadlineSeconds") not in (None, NO_LIMIT)


def calculate(
    deployment: Object, sets: Sequence[Object], new: Object | None, now: datetime, *, counts_terminating: bool
) -> Object:
    """Returns counts and the Available condition; other conditions are kept."""
    present = deployment.get("status") or {}
    available = reported(sets, "availableReplicas")
    status: Object = {
        "observedGeneration": deployment["metadata"].get("generation"),
        "replicas": reported(sets, "replicas"),
        "updatedReplicas": reported([new], "replicas"),
        "readyReplicas": reported(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, total(sets) - available),
    }
    if counts_terminating and all(
        "terminatingReplicas" in (replica_set.get("status") or {}) for replica_set in sets
    ):
        status["terminatingReplicas"] = reported(sets, "terminatingReplicas")
    if "collisionCount" in present:
        status["collisionCount"] = present["collisionCount"]
    if available >= replicas(deployment) - max_unavailable(deployment):
        verdict = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        verdict = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    status["conditions"] = with_updated_condition(
        present.get("conditions") or [], new_condition("Available", *verdict, now)
    )
    return status


def is_complete(deployment: Object, status: Object) -> bool:
    """Returns whether all replicas have the present template and are available, and no others are left."""
    wanted = replicas(deployment)
    counts = ("updatedReplicas", "replicas", "availableReplicas")
    seen = status.get("observedGeneration") or 0
    return all((status.get(name) or 0) == wanted for name in counts) and seen >= deployment["metadata"].get(
        "generation", 0
    )


def is_progressing(deployment: Object, status: Object) -> bool:
    """Returns whether there are more new, ready or available replicas than before, or fewer old ones."""
    before = deployment.get("status") or {}

    def gained(name: str) -> bool:
        return (status.get(name) or 0) > (before.get(name) or 0)

    def old_ones(counts: Object) -> int:
        return (counts.get("replicas") or 0) - (counts.get("updatedReplicas") or 0)

    return any(
        gained(name) for name in ("updatedReplicas", "readyReplicas", "availableReplicas")
    ) or old_ones(status) < old_ones(before)


def is_timed_out(deployment: Object, status: Object, now: datetime) -> bool:
    """Returns whether there was no progress for longer than the deadline."""
    if not has_deadline(deployment):
        return False
    found = find_condition({"status": status}, "Progressing")
    if found is None or found.get("reason") == NEW_AVAILABLE:
        return False
    if found.get("reason") == TIMED_OUT:
        return True
    return deadline_of(deployment, found) < now


def deadline_of(deployment: Object, progressing: Object) -> datetime:
    since = parse_timestamp(progressing["lastUpdateTime"])
    return since + timedelta(seconds=deployment["spec"]["progressDeadlineSeconds"])


def with_progress(
    deployment: Object, status: Object, sets: Sequence[Object], new: Object | None, now: datetime
) -> Object:
    """Returns the status with its Progressing and ReplicaFailure conditions brought up to date."""
    conditions: list[Object] = status["conditions"]
    if has_deadline(deployment):
        conditions = _progressing(deployment, status, new, now)
    else:
        conditions = without_condition(conditions, "Progressing")
    failure = _replica_failure(sets, new)
    if failure is None:
        conditions = without_condition(conditions, "ReplicaFailure")
    else:
        conditions = with_updated_condition(conditions, failure)
    return {**status, "conditions": conditions}


def _progressing(deployment: Object, status: Object, new: Object | None, now: datetime) -> list[Object]:
    conditions: list[Object] = status["conditions"]
    current = find_condition(deployment, "Progressing")
    done = current is not None and current.get("reason") == NEW_AVAILABLE
    if done and status["replicas"] == status["updatedReplicas"]:
        return conditions  # a lost pod does not restart a finished rollout
    who = (
        f'ReplicaSet "{new["metadata"]["name"]}"' if new else f'Deployment "{deployment["metadata"]["name"]}"'
    )
    if is_complete(deployment, status):
        message = f"{who} has successfully progressed."
        return with_updated_condition(
            conditions, new_condition("Progressing", "True", NEW_AVAILABLE, message, now)
        )
    if is_progressing(deployment, status):
        made = new_condition("Progressing", "True", "ReplicaSetUpdated", f"{who} is progressing.", now)
        if current is not None and current["status"] == "True":
            made["lastTransitionTime"] = current["lastTransitionTime"]
        # Replaced even if only the time changes: the deadline counts from it.
        return [*without_condition(conditions, "Progressing"), made]
    if is_timed_out(deployment, status, now):
        message = f"{who} has timed out progressing."
        return with_updated_condition(
            conditions, new_condition("Progressing", "False", TIMED_OUT, message, now)
        )
    return conditions


def _replica_failure(sets: Sequence[Object], new: Object | None) -> Object | None:
    """Returns the failure of the new replica set, else of any."""
    for replica_set in ([new] if new is not None else []) + list(sets):
        found = find_condition(replica_set, "ReplicaFailure")
        if found is not None:
            return {
                "type": "ReplicaFailure",
                "status": found["status"],
                "lastUpdateTime": found["lastTransitionTime"],
                "lastTransitionTime": found["lastTransitionTime"],
                "reason": found.get("reason", ""),
                "message": found.get("message", ""),
            }
    return None


def paused_condition(deployment: Object, now: datetime) -> Object | None:
    """Returns the Progressing condition to set because the deployment was just paused or resumed."""
    current = find_condition(deployment, "Progressing")
    reason = current.get("reason") if current is not None else ""
    if not has_deadline(deployment) or reason == TIMED_OUT:
        return None
    paused = bool(deployment["spec"].get("paused"))
    if paused and reason != PAUSED:
        return new_condition("Progressing", "Unknown", PAUSED, "Deployment is paused", now)
    if not paused and reason == PAUSED:
        return new_condition("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed", now)
    return None

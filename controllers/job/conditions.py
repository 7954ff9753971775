"""A job's conditions, which may end it, and their reasons by release. Pure functions.

Source: pkg/controller/job/job_controller.go, staging/src/k8s.io/api/batch/v1/types.go, 1.36.
"""

from datetime import datetime

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.conditions import is_condition_true
from kubeskew.apimachinery.objects import Object

COMPLETE, FAILED, SUSPENDED = "Complete", "Failed", "Suspended"
FAILURE_TARGET, SUCCESS_CRITERIA_MET = "FailureTarget", "SuccessCriteriaMet"
_FINAL = {FAILURE_TARGET: FAILED, SUCCESS_CRITERIA_MET: COMPLETE}


def new(kind: str, reason: str, message: str, now: datetime) -> Object:
    return {
        "type": kind,
        "status": "True",
        "lastProbeTime": timestamp(now),
        "lastTransitionTime": timestamp(now),
        **({"reason": reason} if reason else {}),
        **({"message": message} if message else {}),
    }


def is_finished(job: Object) -> bool:
    return is_condition_true(job, COMPLETE) or is_condition_true(job, FAILED)


def final(interim: Object, now: datetime) -> Object:
    """The job ends with this condition once no pod is left; `interim` announced it."""
    kind: str = _FINAL.get(interim["type"]) or interim["type"]
    return new(kind, interim.get("reason") or "", interim.get("message") or "", now)


def ensured(
    present: list[Object], kind: str, status: str, reason: str, message: str, now: datetime
) -> tuple[list[Object], bool]:
    """The second value is whether that changed anything; a false condition is not added."""
    wanted = {**new(kind, reason, message, now), "status": status}
    for position, found in enumerate(present):
        if found["type"] == kind:
            present_content = (found["status"], found.get("reason") or "", found.get("message") or "")
            if present_content == (status, reason, message):
                return present, False
            return [*present[:position], wanted, *present[position + 1 :]], True
    if status == "False":
        return present, False
    return [*present, wanted], True

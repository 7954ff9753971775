"""Makes the cells that `kubectl get` shows of Job objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apiserver.registry.tables.durations import human_duration
from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
)
from kubeskew.apiserver.registry.tables.workloads import pod_cells

# The first of these conditions that is True is the job's state; then comes a deletion.
_JOB_ENDS = ("Complete", "Failed")

_JOB_STATES = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def job(subject: Subject) -> Cells:
    return {
        "Status": _job_state(subject),
        "Completions": _completions(subject),
        "Duration": _job_duration(subject),
        **pod_cells(subject),
    }


def _job_state(subject: Subject) -> str:
    ended = next(filter(subject.is_true, _JOB_ENDS), None)
    if ended or subject.deleted:
        return ended or "Terminating"
    return next(filter(subject.is_true, _JOB_STATES), "Running")


def _completions(subject: Subject) -> str:
    succeeded, wanted = subject.number("status", "succeeded"), subject.at("spec", "completions")
    if wanted is not None:
        return f"{succeeded}/{wanted}"
    parallelism = subject.number("spec", "parallelism")
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(subject: Subject) -> str:
    start, end = subject.at("status", "startTime"), subject.at("status", "completionTime")
    if not start:
        return ""
    return human_duration((parse_timestamp(end) if end else subject.now) - parse_timestamp(start))

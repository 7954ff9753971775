"""The rows of the kinds that run pods (apps, batch), and of what scales, protects and groups them.

Source: pkg/printers/internalversion/printers.go.
"""

from types import MappingProxyType

from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.errors import GroupKind
from kubeskew.apimachinery.labels import LabelSelector, SelectorError
from kubeskew.apiserver.tables.autoscaling import horizontal_pod_autoscaler
from kubeskew.apiserver.tables.durations import human_duration
from kubeskew.apiserver.tables.subjects import (
    NONE,
    Cells,
    CellTable,
    Subject,
    boolean,
    containers,
    kind_name,
    labels,
    selector,
)

# A condition that is True is the job's state; the first one counts, a deletion comes after the ends.
_JOB_ENDS = ("Complete", "Failed")
_JOB_STATES = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def replica_set(subject: Subject) -> Cells:
    return {
        "Desired": subject.number("spec", "replicas"),
        "Current": subject.number("status", "replicas"),
        "Ready": subject.number("status", "readyReplicas"),
        **_pods(subject),
    }


def daemon_set(subject: Subject) -> Cells:
    return {
        "Desired": subject.number("status", "desiredNumberScheduled"),
        "Current": subject.number("status", "currentNumberScheduled"),
        "Ready": subject.number("status", "numberReady"),
        "Up-to-date": subject.number("status", "updatedNumberScheduled"),
        "Available": subject.number("status", "numberAvailable"),
        "Node Selector": labels(subject.at("spec", "template", "spec", "nodeSelector")),
        **_pods(subject),
    }


def deployment(subject: Subject) -> Cells:
    try:
        text = str(LabelSelector.from_object(subject.at("spec", "selector")))
    except SelectorError:
        text = "<invalid>"
    return {
        "Ready": _ready(subject),
        "Up-to-date": subject.number("status", "updatedReplicas"),
        "Available": subject.number("status", "availableReplicas"),
        **containers(subject.at("spec", "template")),
        "Selector": text,
    }


def stateful_set(subject: Subject) -> Cells:
    return {"Ready": _ready(subject), **containers(subject.at("spec", "template"))}


def controller_revision(subject: Subject) -> Cells:
    owners = subject.items("metadata", "ownerReferences")
    owner = next((one for one in owners if one.get("controller")), None)
    controller = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        controller = f"{kind_name(owner.get('kind', ''), group).lower()}/{owner.get('name', '')}"
    return {"Controller": controller, "Revision": subject.number("revision")}


def job(subject: Subject) -> Cells:
    return {
        "Status": _job_state(subject),
        "Completions": _completions(subject),
        "Duration": _job_duration(subject),
        **_pods(subject),
    }


def cron_job(subject: Subject) -> Cells:
    job_spec = ("spec", "jobTemplate", "spec")
    return {
        "Schedule": subject.text("spec", "schedule"),
        "Timezone": subject.text("spec", "timeZone", default=NONE),
        "Suspend": boolean(subject.at("spec", "suspend")),
        "Active": subject.count("status", "active"),
        "Last Schedule": subject.since("status", "lastScheduleTime", default=NONE),
        **containers(subject.at(*job_spec, "template")),
        "Selector": selector(subject.at(*job_spec, "selector")),
    }


def pod_disruption_budget(subject: Subject) -> Cells:
    least, most = subject.at("spec", "minAvailable"), subject.at("spec", "maxUnavailable")
    return {
        "Min Available": "N/A" if least is None else str(least),
        "Max Unavailable": "N/A" if most is None else str(most),
        "Allowed Disruptions": subject.number("status", "disruptionsAllowed"),
    }


def _pods(subject: Subject) -> Cells:
    """The cells that tell which pods a workload makes."""
    return {
        **containers(subject.at("spec", "template")),
        "Selector": selector(subject.at("spec", "selector")),
    }


def _ready(subject: Subject) -> str:
    return f"{subject.number('status', 'readyReplicas')}/{subject.number('spec', 'replicas')}"


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


CELLS: CellTable = MappingProxyType(
    {
        GroupKind("apps", "ControllerRevision"): controller_revision,
        GroupKind("apps", "DaemonSet"): daemon_set,
        GroupKind("apps", "Deployment"): deployment,
        GroupKind("apps", "ReplicaSet"): replica_set,
        GroupKind("apps", "StatefulSet"): stateful_set,
        GroupKind("autoscaling", "HorizontalPodAutoscaler"): horizontal_pod_autoscaler,
        GroupKind("batch", "CronJob"): cron_job,
        GroupKind("batch", "Job"): job,
        GroupKind("policy", "PodDisruptionBudget"): pod_disruption_budget,
    }
)

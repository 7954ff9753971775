"""Makes the cells that `kubectl get` shows of Pod objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from dataclasses import dataclass, field

from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.apiserver.registry.tables.subjects import NONE, Cells, Subject, ago, at

_INITIALIZING = "PodInitializing"

_OVER = ("Succeeded", "Failed")

_ROW_CONDITIONS = {
    "Succeeded": ("Succeeded", "The pod has completed successfully."),
    "Failed": ("Failed", "The pod failed."),
}


@dataclass(slots=True)
class _Restarts:
    """Counts restarts of some containers, and holds when the last of them ended before that."""

    count: int = 0
    times: list[str] = field(default_factory=list)

    def add(self, status: Object) -> None:
        self.count += status.get("restartCount") or 0
        finished = at(status, "lastState", "terminated", "finishedAt")
        if finished:
            self.times.append(finished)

    def text(self, subject: Subject) -> str:
        if not self.count or not self.times:
            return str(self.count)
        return f"{self.count} ({ago(max(self.times, key=parse_timestamp), subject.now)} ago)"


@dataclass(slots=True)
class _View:
    """Holds the state of the walk over the containers."""

    reason: str
    ready: int = 0
    restarts: _Restarts = field(default_factory=_Restarts)


def pod(subject: Subject) -> Cells:
    inits = subject.items("spec", "initContainers")
    restartable = {container["name"] for container in inits if is_sidecar(container)}
    if subject.unknown_init_panics:
        known = {container["name"] for container in inits}
        if any(each.get("name") not in known for each in subject.items("status", "initContainerStatuses")):
            raise RuntimeError("panic: runtime error: invalid memory address or nil pointer dereference")
    view = _View(_first_reason(subject))
    lasting = _Restarts()
    initializing = _walk_init_containers(subject, view, restartable, lasting)
    if not initializing or subject.is_true("Initialized"):
        view.restarts = lasting
        _walk_containers(subject, view)
    addresses = subject.items("status", "podIPs") or [{"ip": subject.at("status", "podIP")}]
    return {
        "Ready": f"{view.ready}/{subject.count('spec', 'containers') + len(restartable)}",
        "Status": _last_reason(subject, view.reason),
        "Restarts": view.restarts.text(subject),
        "IP": addresses[0].get("ip") or NONE,
        "Node": subject.text("spec", "nodeName", default=NONE),
        "Nominated Node": subject.text("status", "nominatedNodeName", default=NONE),
        "Readiness Gates": _gates(subject),
    }


def row_conditions(obj: Object) -> list[Object]:
    """A finished pod's row says so, for clients that hide such rows."""
    found = _ROW_CONDITIONS.get(at(obj, "status", "phase") or "")
    if found is None:
        return []
    return [{"type": "Completed", "status": "True", "reason": found[0], "message": found[1]}]


def _first_reason(subject: Subject) -> str:
    """Returns the reason that the pod's status states by itself."""
    for condition in subject.items("status", "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            return "SchedulingGated"
    return subject.text("status", "reason") or subject.text("status", "phase")


def _last_reason(subject: Subject, reason: str) -> str:
    """Returns the reason in view of a deletion."""
    if not subject.deleted:
        return reason
    if subject.at("status", "reason") == "NodeLost":
        return "Unknown"
    return reason if subject.at("status", "phase") in _OVER else "Terminating"


def _walk_init_containers(subject: Subject, view: _View, restartable: set[str], lasting: _Restarts) -> bool:
    """Decides whether one of them is not done yet; `lasting` are the restarts of those that keep running."""
    total = subject.count("spec", "initContainers")
    for position, status in enumerate(subject.items("status", "initContainerStatuses")):
        view.restarts.add(status)
        stays = status.get("name") in restartable
        if stays:
            lasting.add(status)
        if at(status, "state", "terminated") is not None and not _exit_code(status):
            continue
        if stays and status.get("started"):
            view.ready += bool(status.get("ready"))
            continue
        view.reason = "Init:" + (_init_reason(status) or f"{position}/{total}")
        return True
    return False


def _init_reason(status: Object) -> str:
    """Returns the reason for which an init container is not done, empty if it just takes its time."""
    if at(status, "state", "terminated") is not None:
        return _terminated_reason(status)
    waiting = at(status, "state", "waiting", "reason") or ""
    return "" if waiting == _INITIALIZING else str(waiting)


def _walk_containers(subject: Subject, view: _View) -> None:
    """The first container that has something to say says it."""
    running, error = False, ""
    for status in reversed(subject.items("status", "containerStatuses")):
        view.restarts.add(status)
        waiting = at(status, "state", "waiting", "reason")
        if waiting:
            view.reason = waiting
        elif at(status, "state", "terminated") is not None:
            view.reason = _terminated_reason(status)
            error = view.reason if _exit_code(status) else error
        elif status.get("ready") and at(status, "state", "running") is not None:
            running = True
            view.ready += 1
    if view.reason == "Completed":
        view.reason = _beyond_completed(subject, running, error)


def _beyond_completed(subject: Subject, running: bool, error: str) -> str:
    """Returns the reason if one container completed: that of the others."""
    if running and subject.is_true("Ready"):
        return "Running"
    return error or ("NotReady" if running else "Completed")


def _exit_code(status: Object) -> int:
    return int(at(status, "state", "terminated", "exitCode") or 0)


def _terminated_reason(status: Object) -> str:
    reason = at(status, "state", "terminated", "reason")
    if reason:
        return str(reason)
    signal = at(status, "state", "terminated", "signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{_exit_code(status)}"


def _gates(subject: Subject) -> str:
    """Shows the number of open readiness gates, of how many."""
    gates = subject.items("spec", "readinessGates")
    if not gates:
        return NONE
    return f"{sum(subject.is_true(gate.get('conditionType', '')) for gate in gates)}/{len(gates)}"

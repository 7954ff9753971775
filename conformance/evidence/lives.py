"""The lives of pods: what happened to each, told from its writes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kubeskew.apimachinery.objects import ObjectView
from kubeskew.conformance.evidence.log import Logged, Write


@dataclass(frozen=True, slots=True)
class LifeEvent:
    """One thing that happened to a pod, and who wrote it."""

    revision: int
    time: str
    what: str
    by: str


@dataclass(slots=True)
class PodLife:
    """A pod from its creation to its end. `node` is empty as long as it has none."""

    namespace: str
    name: str
    uid: str
    node: str = ""
    events: list[LifeEvent] = field(default_factory=list)


def pod_lives(log: Iterable[Logged]) -> list[PodLife]:
    """In the order in which they were created."""
    lives: dict[str, PodLife] = {}
    last: dict[str, ObjectView] = {}
    for entry in log:
        if not isinstance(entry, Write) or entry.resource != "pods":
            continue
        uid = entry.value["metadata"]["uid"]
        life = lives.setdefault(uid, PodLife(entry.namespace, entry.name, uid))
        before = last.get(uid, {})
        for what in _happened(before, entry):
            life.events.append(LifeEvent(entry.revision, entry.time, what, entry.by))
        life.node = (entry.value.get("spec") or {}).get("nodeName", "")
        last[uid] = entry.value
    return list(lives.values())


def _happened(before: ObjectView, write: Write) -> Iterator[str]:
    if write.verb == "delete":
        yield "gone"
        return
    if not before:
        yield "created"
    pod = write.value
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    old_spec, old_status = before.get("spec") or {}, before.get("status") or {}
    if spec.get("nodeName") and not old_spec.get("nodeName"):
        yield f"bound to {spec['nodeName']}"
    if _unschedulable(status) and _unschedulable(status) != _unschedulable(old_status):
        yield f"unschedulable: {_unschedulable(status)}"
    mapped = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    if mapped and not old_status.get("extendedResourceClaimStatus"):
        yield f"extended-resource claim {mapped}"
    if status.get("phase") != old_status.get("phase") and before:
        yield " ".join(filter(None, (status.get("phase"), status.get("reason"))))
    yield from _containers(status, old_status)
    if pod["metadata"].get("deletionTimestamp") and not before.get("metadata", {}).get("deletionTimestamp"):
        yield "being deleted"


def _unschedulable(status: ObjectView) -> str:
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{condition.get('message', '')}"
    return ""


def _containers(status: ObjectView, old_status: ObjectView) -> Iterator[str]:
    """Restarts, and what keeps containers waiting."""
    old = {each["name"]: each for each in _statuses(old_status)}
    for each in _statuses(status):
        before = old.get(each["name"], {})
        if each.get("restartCount", 0) > before.get("restartCount", 0):
            yield f"{each['name']} restarted ({each['restartCount']})"
        waiting, waited = (((state.get("state") or {}).get("waiting") or {}) for state in (each, before))
        if waiting and waiting != waited and waiting.get("reason") != "ContainerCreating":
            reason = ": ".join(filter(None, (waiting.get("reason"), waiting.get("message"))))
            yield f"{each['name']} waits: {reason}"


def _statuses(status: ObjectView) -> Iterator[ObjectView]:
    yield from status.get("initContainerStatuses") or []
    yield from status.get("containerStatuses") or []

"""Lives of pods and other objects: their creation, their events and their end."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import ObjectView
from kubeskew.conformance.evidence.aspects import results
from kubeskew.conformance.evidence.log import Logged, Write, uid_of

# Pods have lives of their own; the others come with every cluster, or show nothing of the scenario.
_LEFT_OUT = frozenset(
    {
        *("pods", "events", "events.events.k8s.io", "leases.coordination.k8s.io", "namespaces"),
        *("serviceaccounts", "configmaps", "secrets", "endpoints", "endpointslices.discovery.k8s.io"),
        *(
            "apiservices.apiregistration.k8s.io",
            "priorityclasses.scheduling.k8s.io",
            "csinodes.storage.k8s.io",
        ),
        *("ipaddresses.networking.k8s.io", "servicecidrs.networking.k8s.io"),
        *("controllerrevisions.apps", "storageversions.internal.apiserver.k8s.io"),
    }
)
_GROUPS_LEFT_OUT = (".rbac.authorization.k8s.io", ".flowcontrol.apiserver.k8s.io")
_SERVER = ("services", "default", "kubernetes")


@dataclass(frozen=True, slots=True)
class LifeEvent:
    """One event in the life of an object, and its writer."""

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
    """Lives come in the order of creation."""
    lives: dict[str, PodLife] = {}
    last: dict[str, ObjectView] = {}
    for entry in log:
        if not isinstance(entry, Write) or entry.resource != "pods":
            continue
        uid = entry.value["metadata"]["uid"]
        life = lives.setdefault(uid, PodLife(entry.namespace, entry.name, uid))
        before = last.get(uid, {})
        for what in _happened_to_pod(before, entry):
            life.events.append(LifeEvent(entry.revision, entry.time, what, entry.by))
        life.node = (entry.value.get("spec") or {}).get("nodeName", "")
        last[uid] = entry.value
    return list(lives.values())


def _happened_to_pod(before: ObjectView, write: Write) -> Iterator[str]:
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
    condition = find_condition({"status": status}, "PodScheduled") or {}
    return str(condition.get("message", "")) if condition.get("status") == "False" else ""


def _containers(status: ObjectView, old_status: ObjectView) -> Iterator[str]:
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


@dataclass(slots=True)
class ObjectLife:
    """An object from its creation to its end; `until` is empty as long as there is none."""

    resource: str
    namespace: str
    name: str
    uid: str
    since: str
    until: str = ""
    events: list[LifeEvent] = field(default_factory=list)


def object_lives(log: Iterable[Logged]) -> list[ObjectLife]:
    """Lives come in the order of creation."""
    lives: dict[str, ObjectLife] = {}
    last: dict[str, ObjectView] = {}
    for entry in log:
        if not isinstance(entry, Write) or _is_left_out(entry):
            continue
        uid = uid_of(entry.value)
        life = lives.setdefault(uid, ObjectLife(entry.resource, entry.namespace, entry.name, uid, entry.time))
        for what in _happened_to_object(last.get(uid), entry):
            life.events.append(LifeEvent(entry.revision, entry.time, what, entry.by))
        if entry.verb == "delete":
            life.until = entry.time
        last[uid] = entry.value
    return list(lives.values())


def _is_left_out(write: Write) -> bool:
    return (
        write.resource in _LEFT_OUT
        or write.resource.endswith(_GROUPS_LEFT_OUT)
        or (write.resource, write.namespace, write.name) == _SERVER
    )


def _happened_to_object(before: ObjectView | None, write: Write) -> Iterator[str]:
    if write.verb == "delete":
        yield "gone"
        return
    if before is None:
        yield "created"
    old, new = before or {"metadata": {}}, write.value
    kind = new.get("kind")
    if kind == "ResourceClaim":
        yield from _claim_news(old, new)
    elif kind == "ResourceSlice":
        yield from _changed(
            "devices: {}", len(_spec(old).get("devices") or ()), len(_spec(new).get("devices") or ())
        )
    elif kind == "Node":
        yield from _changed("Ready: {}", _ready(old), _ready(new))
    else:
        yield from _changed("{}", _status(old).get("phase"), _status(new).get("phase"))
        yield from _changed(
            "ready replicas: {}", _status(old).get("readyReplicas"), _status(new).get("readyReplicas")
        )
    if before is not None and _spec(old) != _spec(new) and kind != "ResourceSlice":
        yield "spec changed"
    if new["metadata"].get("deletionTimestamp") and not old["metadata"].get("deletionTimestamp"):
        yield "being deleted"


def _changed(text: str, old: Any, new: Any) -> Iterator[str]:
    if new != old and new is not None:
        yield text.format(new)


def _claim_news(old: ObjectView, new: ObjectView) -> Iterator[str]:
    had, has = (bool(_status(claim).get("allocation")) for claim in (old, new))
    if has and not had:
        devices = (f"{each.get('driver')}/{each.get('pool')}/{each.get('device')}" for each in results(new))
        yield " ".join(["allocated", ", ".join(devices)]).rstrip()
    elif had and not has:
        yield "deallocated"
    before, after = (
        dict.fromkeys(str(each.get("name")) for each in reserved_for(claim)) for claim in (old, new)
    )
    yield from (f"reserved for {name}" for name in after if name not in before)
    yield from (f"no longer reserved for {name}" for name in before if name not in after)


def _ready(node: ObjectView) -> str | None:
    condition = find_condition(node, "Ready")
    return None if condition is None else str(condition.get("status"))


def _spec(obj: ObjectView) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = obj.get("spec") or {}
    return spec


def _status(obj: ObjectView) -> Mapping[str, Any]:
    status: Mapping[str, Any] = obj.get("status") or {}
    return status

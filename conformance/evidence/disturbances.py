"""Finds disturbances of pods that were to live on: the values before and after, the time and the writer.

Compared are the pod, its claims and its node as they were noted before the first change, with every write of
the log since then, so that changes that were undone are found, too; and the records of drivers and the
runtime. A repeated NodePrepareResources is no disturbance, a NodeUnprepareResources is.
"""

import json
import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kubeskew.apimachinery.objects import ObjectView
from kubeskew.conformance.evidence import aspects
from kubeskew.conformance.evidence.aspects import Aspects
from kubeskew.conformance.evidence.log import Logged, Write, uid_of
from kubeskew.conformance.evidence.nodes import NodeRecords, PreparedClaim

_CLAIMS = "resourceclaims.resource.k8s.io"


@dataclass(frozen=True, slots=True)
class PodSnapshot:
    """A pod as it was before the first change; `prepared` are those of its claims that its node held
    prepared, and `records` the nodes' records until then. (Their clocks may be wrong, so that times cannot
    decide.)"""

    pod: ObjectView
    node: ObjectView | None
    prepared: Sequence[PreparedClaim]
    revision: int  # of the store
    records: NodeRecords

    @property
    def node_name(self) -> str:
        return (self.pod.get("spec") or {}).get("nodeName") or ""


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The cluster at the moment of the check. `prepared` lacks nodes whose kubelet does not answer."""

    nodes: Mapping[str, ObjectView]
    prepared: Mapping[str, Sequence[PreparedClaim]]
    log: Sequence[Logged]
    records: NodeRecords

    def writes(self, resource: str, uids: set[str]) -> Iterator[Write]:
        for entry in self.log:
            if isinstance(entry, Write) and entry.resource == resource and uid_of(entry.value) in uids:
                yield entry

    def revision_at(self, time: str) -> int:
        """Zero before the first write."""
        at = bisect_left(self.log, time, key=lambda entry: entry.time)
        return self.log[at - 1].revision if at else 0


@dataclass(frozen=True, slots=True)
class Change:
    """One disturbance. `returned` says that it was undone later; `write` is the first that brought it."""

    what: str
    before: Any
    after: Any
    write: Write | None = None
    returned: bool = False

    @property
    def revision(self) -> float:
        return self.write.revision if self.write is not None else math.inf

    def __str__(self) -> str:
        before, after = _shown(self.before), _shown(self.after)
        text = f"{self.what} was {before}, {'became' if self.returned else 'is'} {after}"
        text += " for a time" if self.returned else ""
        write = self.write
        return text + (f" (written by {write.by} at revision {write.revision})" if write is not None else "")


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    return value if isinstance(value, str) else json.dumps(value, default=list)


@dataclass(frozen=True, slots=True)
class Incident:
    """Nodes recorded this disturbance after the write of some revision."""

    revision: float
    text: str

    def __str__(self) -> str:
        return self.text


def disturbances(noted: PodSnapshot, pod: ObjectView, seen: ClusterSnapshot) -> list[str]:
    noted = _as_it_ran(noted, seen)
    claims = _claims(noted, seen)
    history = _since(noted, seen, "pods", noted.pod)
    found: list[Change | Incident] = [*_compared(noted.pod, pod, history, aspects.of_pod)]
    for uid in sorted(claims):
        found += _claim_changes(noted, seen, uid)
    found += _node_changes(noted, seen)
    found += _unprepared(noted, seen)
    found += _calls(noted, seen, set(claims) | {claim.uid for claim in noted.prepared})
    found += _containers(noted, seen)
    return [*map(str, sorted(found, key=lambda incident: incident.revision))]


def _as_it_ran(noted: PodSnapshot, seen: ClusterSnapshot) -> PodSnapshot:
    """A pod that began to run after it was noted counts as it was then: to start is no disturbance."""
    if _phase(noted.pod) != "Pending":
        return noted
    history = _since(noted, seen, "pods", noted.pod)
    ran = next((write for write in history if _phase(write.value) == "Running"), None)
    if ran is None:
        return noted
    first = {
        event.container: event
        for event in reversed(seen.records.containers)
        if event.pod_uid == uid_of(noted.pod)
        and event.what == "started"
        and event not in noted.records.containers
    }
    records = replace(noted.records, containers=[*noted.records.containers, *first.values()])
    return replace(noted, pod=ran.value, revision=ran.revision, records=records)


def ending(noted: PodSnapshot, seen: ClusterSnapshot) -> str:
    history = _since(noted, seen, "pods", noted.pod)
    marked = next((write for write in history if write.value["metadata"].get("deletionTimestamp")), None)
    deleted = next((write for write in history if write.verb == "delete"), None)
    text = "it is gone"
    if marked is not None and marked.verb != "delete":
        text += f", to be deleted as {marked.by} wrote at revision {marked.revision}"
    return text + (f", deleted by {deleted.by} at revision {deleted.revision}" if deleted is not None else "")


def _since(noted: PodSnapshot, seen: ClusterSnapshot, resource: str, obj: ObjectView) -> list[Write]:
    return [write for write in seen.writes(resource, {uid_of(obj)}) if write.revision > noted.revision]


def _compared(before: ObjectView, now: ObjectView, history: Sequence[Write], of: Any) -> Iterator[Change]:
    """Changes that were undone are marked as `returned`."""
    old, new = of(before), of(now)
    between: list[tuple[Write, Aspects]] = [
        (write, of({} if write.verb == "delete" else write.value)) for write in history
    ]
    for name, value in aspects.comparable(old, new).items():
        first = next(
            ((write, found[name]) for write, found in between if name in found and found[name] != value), None
        )
        if new.get(name) != value:
            yield Change(name, value, new.get(name), first[0] if first else None)
        elif first:
            yield Change(name, value, first[1], first[0], returned=True)


def _claims(noted: PodSnapshot, seen: ClusterSnapshot) -> dict[str, ObjectView]:
    """Claims are as they were when the pod was noted, by UID."""
    names, namespace = aspects.claim_names(noted.pod), noted.pod["metadata"]["namespace"]
    found: dict[str, ObjectView] = {}
    for entry in seen.log:
        if not isinstance(entry, Write) or entry.revision > noted.revision:
            continue
        if entry.resource == _CLAIMS and entry.namespace == namespace and entry.name in names:
            found.pop(uid_of(entry.value), None)
            if entry.verb != "delete":
                found[uid_of(entry.value)] = entry.value
    return found


def _claim_changes(noted: PodSnapshot, seen: ClusterSnapshot, uid: str) -> Iterator[Change]:
    writes = [*seen.writes(_CLAIMS, {uid})]
    before = [write for write in writes if write.revision <= noted.revision][-1]
    history = writes[writes.index(before) + 1 :]

    def of(claim: ObjectView) -> Aspects:
        return aspects.of_claim(claim, before.name, noted.pod)

    if history:
        now = {} if history[-1].verb == "delete" else history[-1].value
        yield from _compared(before.value, now, history, of)


def _node_changes(noted: PodSnapshot, seen: ClusterSnapshot) -> Iterator[Change]:
    """A node that was deleted, or made again under its name, is one change."""
    if noted.node is None:
        return
    name, used = noted.node_name, aspects.used_resources(noted.pod)
    now = seen.nodes.get(name)
    history = _since(noted, seen, "nodes", noted.node)
    if now is None or uid_of(now) != uid_of(noted.node):
        gone = next((write for write in history if write.verb == "delete"), None)
        yield Change(f"node {name}", uid_of(noted.node), uid_of(now) if now else None, gone)
        return
    yield from _compared(noted.node, now, history, aspects.readiness)
    resources = _compared(noted.node, now, history, lambda node: aspects.resources(node, used))
    yield from (change for change in resources if not change.returned)  # plugins come and go with a kubelet


def _unprepared(noted: PodSnapshot, seen: ClusterSnapshot) -> Iterator[Change | Incident]:
    """Claims that the pod's node held prepared and does not hold now, or with other devices, are reported."""
    if noted.node_name not in seen.prepared:
        return
    held = {(claim.driver, claim.uid): claim for claim in seen.prepared[noted.node_name]}
    for claim in noted.prepared:
        now, name = held.get((claim.driver, claim.uid)), f"{claim.namespace}/{claim.name}"
        if now is None:
            lost = f"no longer holds the devices of claim {name} prepared by {claim.driver}"
            yield Incident(math.inf, f"node {claim.node} {lost}")
            continue
        for what, old, new in (
            ("devices", claim.device_names, now.device_names),
            ("CDI devices", claim.cdi_ids, now.cdi_ids),
        ):
            if old != new:
                yield Change(f"{what} of claim {name}, prepared by {claim.driver}", old, new)


def _calls(noted: PodSnapshot, seen: ClusterSnapshot, uids: set[str]) -> Iterator[Incident]:
    for call in seen.records.calls:
        if call.unprepares and call.uid in uids and call not in noted.records.calls:
            revision = seen.revision_at(call.time)
            failed = f", which failed: {call.error}" if call.error else ""
            yield Incident(
                revision,
                f"kubelet/{call.node} called {call.call} of driver {call.driver} "
                f"for claim {call.namespace}/{call.name} after revision {revision}{failed}",
            )


def _containers(noted: PodSnapshot, seen: ClusterSnapshot) -> Iterator[Change | Incident]:
    devices: dict[str, Sequence[str]] = {}
    for event in seen.records.containers:
        if event.pod_uid != uid_of(noted.pod):
            continue
        known = devices.get(event.container)
        if event not in noted.records.containers:
            revision = seen.revision_at(event.time)
            what = f"the runtime of {event.node} {event.what} container {event.container}"
            yield Incident(revision, f"{what} after revision {revision}")
            if known is not None and [*known] != [*event.cdi_devices]:
                yield Change(f"CDI devices in container {event.container}", known, event.cdi_devices)
        devices[event.container] = event.cdi_devices


def _phase(pod: ObjectView) -> str:
    return str((pod.get("status") or {}).get("phase") or "")

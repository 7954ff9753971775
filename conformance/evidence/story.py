"""The story of one object in sentences: each names the component that acted, its action and the event that
led to it.

For a waiting pod, it names writes that may have had the scheduler try it again. Upstream's scheduler asks its
plugins about each event (QueueingHints). Here only the fields of objects that plugins look at are compared,
without the reason that kept the pod from its place: the event is a guess, not proven.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.known_names import kind_of
from kubeskew.apimachinery.objects import ObjectView, controller_of
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.conformance.evidence.aspects import claim_names, results
from kubeskew.conformance.evidence.changes import changes
from kubeskew.conformance.evidence.log import BRANCHED, FAULT, ComponentChange, Logged, Write, uid_of
from kubeskew.conformance.evidence.nodes import DriverCall, NodeRecords

_CLAIMS = "resourceclaims.resource.k8s.io"
_ANY_WRITE = frozenset(
    {
        "resourceslices.resource.k8s.io",
        "deviceclasses.resource.k8s.io",
        "resourceclasses.resource.k8s.io",
        "devicetaintrules.resource.k8s.io",
        "persistentvolumes",
        "persistentvolumeclaims",
        "storageclasses.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "csidrivers.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io",
        "podschedulingcontexts.resource.k8s.io",
    }
)
_SCHEDULER = "kube-scheduler"
CLAIMS = "resourceclaims.resource.k8s.io"
_EVENTS = frozenset({"events", "events.events.k8s.io"})
_MOST_CHANGES = 3
_NO_PLACE = "found no place for"

_CONTROL_PLANE = frozenset({"apiserver", "scheduler", "controller-manager"})


def wakes(write: Write, before: ObjectView | None, pod: str, claims: Collection[str], namespace: str) -> bool:
    """A write may let a pod find a place unless it is the scheduler's own, or repeats the state before.

    `before` is the object as it was; `claims` are the names of the pod's claims in its `namespace`.
    """
    if write.by.startswith(_SCHEDULER):
        return False
    if write.resource in _ANY_WRITE:
        return True
    if write.resource == "nodes":
        return before is None or write.verb == "delete" or _offered(write.value) != _offered(before)
    ours = write.namespace == namespace
    if write.resource == "pods":
        return (ours and write.name == pod and before is not None) or _makes_room(write, before)
    if write.resource == _CLAIMS:
        return (ours and write.name in claims) or _given_back(write, before)
    return False


def _offered(node: ObjectView) -> Mapping[str, Any]:
    """Plugins look at these fields of a node; the times of its conditions are not among them."""
    metadata, status = node["metadata"], node.get("status") or {}
    conditions = {each["type"]: each.get("status") for each in status.get("conditions") or []}
    offered = {name: metadata.get(name) or {} for name in ("labels", "annotations")}
    return {
        **offered,
        "spec": node.get("spec") or {},
        "allocatable": status.get("allocatable") or {},
        "features": status.get("declaredFeatures") or [],
        "conditions": conditions,
    }


def _makes_room(write: Write, before: ObjectView | None) -> bool:
    """Another pod has ended, is gone, or asks for something else."""
    if before is None or not (before.get("spec") or {}).get("nodeName"):
        return False
    ended = is_terminal(write.value) and not is_terminal(before)
    return write.verb == "delete" or ended or write.value.get("spec") != before.get("spec")


def _given_back(write: Write, before: ObjectView | None) -> bool:
    """Devices of another claim are free again."""
    had = before is not None and bool((before.get("status") or {}).get("allocation"))
    has = write.verb != "delete" and bool((write.value.get("status") or {}).get("allocation"))
    return had and not has


@dataclass(frozen=True, slots=True)
class Sentence:
    """One event of a story. `because` names its cause; it is empty where the log does not show one.

    `waits` marks a pod that found no place: a caller that has the objects of that revision can ask the
    scheduler's plugins why.
    """

    revision: int
    time: str
    text: str
    because: str = ""
    waits: bool = False


def story(
    log: Sequence[Logged], records: NodeRecords, resource: str, namespace: str, name: str
) -> list[Sentence]:
    """Sentences come in the order of time; the claims of a pod are part of its story.

    Objects of the same name that came before it are part of it, too.
    """
    tale = _Tale(log, resource, namespace, name)
    sentences = [*tale.sentences(), *_calls(records, tale.claim_uids)]
    return sorted(sentences, key=lambda sentence: sentence.time)


@dataclass
class _Tale:
    log: Sequence[Logged]
    resource: str
    namespace: str
    name: str
    last: dict[tuple[str, str, str], Write] = field(default_factory=dict)
    claim_uids: set[str] = field(default_factory=set)
    claims: set[str] = field(default_factory=set)
    node: str = ""
    begun: bool = False
    woken: Write | None = None  # the newest write, since the pod found no place, that may have given it one
    decided: bool = False  # the scheduler has reserved a claim for the pod: it has a place

    def sentences(self) -> Iterator[Sentence]:
        self._find_claims()
        for entry in self.log:
            if isinstance(entry, ComponentChange):
                yield from self._component(entry)
                continue
            before = self.last.get(_place(entry))
            if _place(entry) == (self.resource, self.namespace, self.name):
                yield from self._written(entry, before)
            elif entry.resource == CLAIMS and entry.namespace == self.namespace and entry.name in self.claims:
                self.claim_uids.add(uid_of(entry.value))
                yield from self._written(entry, before)
            elif entry.resource in _EVENTS:
                yield from self._event(entry)
            self._note_waking(entry, before)
            self.last[_place(entry)] = entry

    def _find_claims(self) -> None:
        for entry in self.log:
            if isinstance(entry, Write) and _place(entry) == (self.resource, self.namespace, self.name):
                if self.resource == "pods":
                    self.claims |= claim_names(entry.value)
                elif self.resource == CLAIMS:
                    self.claim_uids.add(uid_of(entry.value))

    def _note_waking(self, write: Write, before: Write | None) -> None:
        """Keeps a write that may have made the scheduler try the pod again; writes after its decision are no
        cause."""
        if write.by.startswith(_SCHEDULER) and write.resource == CLAIMS and write.name in self.claims:
            self.decided |= self.name in _consumers(write.value)
        old = before.value if before is not None and before.verb != "delete" else None
        if not self.decided and wakes(write, old, self.name, self.claims, self.namespace):
            self.woken = write

    def _component(self, change: ComponentChange) -> Iterator[Sentence]:
        """Only components that the object depends on count, and only once it is there."""
        ours = kind_of(change.component) in _CONTROL_PLANE or change.component == f"kubelet/{self.node}"
        if self.begun and change.what in BRANCHED:
            yield Sentence(change.revision, change.time, f"the cluster was {change.what} {change.detail}.")
        if self.begun and ours and not change.what.startswith(FAULT):
            why = f": {change.detail}" if change.detail else ""
            text = f"{change.component} {change.version} {change.what}{why}"
            yield Sentence(change.revision, change.time, f"{text.rstrip('.')}.")

    def _written(self, write: Write, before: Write | None) -> Iterator[Sentence]:
        old = before.value if before is not None and before.verb != "delete" else None
        self.begun = True
        if write.resource == "pods":
            self.node = (write.value.get("spec") or {}).get("nodeName") or self.node
        for text, because in self._actions(write, old):
            if text.startswith(_NO_PLACE):
                self.woken, self.decided = None, False
            sentence = f"{_who(write)} {text.rstrip('.')}."
            yield Sentence(write.revision, write.time, sentence, because, waits=text.startswith(_NO_PLACE))

    def _actions(self, write: Write, old: ObjectView | None) -> Iterator[tuple[str, str]]:
        what = f"{write.value.get('kind')} {write.name}"
        if write.verb == "delete":
            yield f"removed {what}", self._deletion(write)
            return
        if old is None and write.verb == "update":
            yield f"wrote {what}; the log of what it was before is compacted", ""
            return
        if old is None:
            yield f"created {what}{_for(write.value)}", self._creation(write)
            return
        actions = [*_pod_news(what, write.value, old, self), *_claim_news(what, write.value, old, self)]
        if write.value["metadata"].get("deletionTimestamp") and not old["metadata"].get("deletionTimestamp"):
            actions.append((f"asked for {what} to be deleted", self._deletion(write)))
        if not actions:
            listed = [str(change) for change in changes(old, write.value)]
            more = f" and {len(listed) - _MOST_CHANGES} more" if len(listed) > _MOST_CHANGES else ""
            actions = [(f"changed {what}: {', '.join(listed[:_MOST_CHANGES])}{more}", "")] if listed else []
        yield from actions

    def _creation(self, write: Write) -> str:
        """A creation's cause is the last write of the owner."""
        owner = self._owner(write.value)
        return (
            f"{owner.value.get('kind')} {owner.name} was written by {owner.by}" + _at(owner) if owner else ""
        )

    def _deletion(self, write: Write) -> str:
        """A deletion's cause is the last event of the owner, or of the pod's node."""
        condition = _condition(write.value, "DisruptionTarget")
        if condition:
            return f"{condition.get('reason')}: {condition.get('message') or 'the pod is disrupted'}"
        owner = self._owner(write.value)
        if owner is not None and owner.verb == "delete":
            return f"{owner.value.get('kind')} {owner.name} was removed by {owner.by}" + _at(owner)
        marked = self.last.get(_place(write))
        if (
            write.verb == "delete"
            and marked is not None
            and marked.value["metadata"].get("deletionTimestamp")
        ):
            return f"it was to be deleted, and nothing held it since {marked.by} wrote it" + _at(marked)
        if owner is not None:
            return f"{owner.value.get('kind')} {owner.name} was written by {owner.by}" + _at(owner)
        return ""

    def _owner(self, obj: ObjectView) -> Write | None:
        reference = controller_of(obj) or {}
        for write in reversed(self.last.values()):
            if reference and uid_of(write.value) == reference.get("uid"):
                return write
        return None

    def trigger(self) -> str:
        """Names the write for which the scheduler may have tried the pod again; it is empty if the log has
        none."""
        if self.woken is None:
            return ""
        verb = {"create": "created", "update": "written", "delete": "removed"}[self.woken.verb]
        kind = self.woken.value.get("kind")
        return f"{kind} {self.woken.name} was {verb} by {self.woken.by}{_at(self.woken)}"

    def _event(self, write: Write) -> Iterator[Sentence]:
        event = write.value
        about = event.get("involvedObject") or event.get("regarding") or {}
        mine = (about.get("namespace") or "", about.get("name")) == (self.namespace, self.name)
        kind = self.last.get((self.resource, self.namespace, self.name))
        if write.verb == "delete" or not mine or kind is None or about.get("kind") != kind.value.get("kind"):
            return
        message = event.get("message") or event.get("note") or ""
        yield Sentence(write.revision, write.time, f"{_who(write)} said {event.get('reason')}: {message}")


def _pod_news(what: str, pod: ObjectView, old: ObjectView, tale: _Tale) -> Iterator[tuple[str, str]]:
    if pod.get("kind") != "Pod":
        return
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    old_spec, old_status = old.get("spec") or {}, old.get("status") or {}
    if spec.get("nodeName") and not old_spec.get("nodeName"):
        yield f"bound {what} to node {spec['nodeName']}", _scheduling_cause(old, tale)
    waiting = _condition(pod, "PodScheduled")
    if waiting.get("status") == "False" and waiting != _condition(old, "PodScheduled"):
        yield f"{_NO_PLACE} {what}: {waiting.get('message') or waiting.get('reason')}", ""
    mapped = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    if mapped and not old_status.get("extendedResourceClaimStatus"):
        yield f"gave {what} the claim {mapped} for its extended resources", ""
    for entry in status.get("resourceClaimStatuses") or []:
        if entry not in (old_status.get("resourceClaimStatuses") or []):
            yield (
                f"recorded for {what} that its claim {entry['name']} is {entry.get('resourceClaimName')}",
                "",
            )
    if status.get("phase") != old_status.get("phase"):
        reason = ": ".join(filter(None, (status.get("reason"), status.get("message"))))
        yield f"reported {what} {status.get('phase')}{f' ({reason})' if reason else ''}", ""
    ready, was = _condition(pod, "Ready").get("status"), _condition(old, "Ready").get("status")
    if ready != was and status.get("phase") == old_status.get("phase") and "True" in {ready, was}:
        yield f"reported {what} {'ready' if ready == 'True' else 'not ready'}", ""
    counts = {
        each["name"]: int(each.get("restartCount") or 0) for each in old_status.get("containerStatuses") or []
    }
    for each in status.get("containerStatuses") or []:
        if int(each.get("restartCount") or 0) > counts.get(each["name"], 0):
            yield f"restarted container {each['name']} of {what}", ""


def _scheduling_cause(old: ObjectView, tale: _Tale) -> str:
    """A pod that waited was bound because of the newest write that could make it fit."""
    waited = _condition(old, "PodScheduled").get("status") == "False"
    return tale.trigger() if waited else ""


def _claim_news(what: str, claim: ObjectView, old: ObjectView, tale: _Tale) -> Iterator[tuple[str, str]]:
    if claim.get("kind") != "ResourceClaim":
        return
    given, had = _devices(claim), _devices(old)
    allocated = bool((claim.get("status") or {}).get("allocation"))
    was_allocated = bool((old.get("status") or {}).get("allocation"))
    if allocated and not was_allocated:
        yield f"allocated {what}{f' the devices {given}' if given else ''}", _users(claim)
    elif was_allocated and not allocated:
        yield f"deallocated {what}{f', which had {had}' if had else ''}", "nobody had it reserved any more"
    now, before = _consumers(claim), _consumers(old)
    for name in sorted(now - before):
        yield f"reserved {what} for {name}", ""
    for name in sorted(before - now):
        gone = tale.last.get(("pods", tale.namespace, name))
        ended = f"Pod {name} was last written by {gone.by}{_at(gone)}" if gone is not None else ""
        yield f"dropped the reservation of {what} for {name}", ended


def _devices(claim: ObjectView) -> str:
    return ", ".join(
        f"{each.get('driver')}/{each.get('pool')}/{each.get('device')}" for each in results(claim)
    )


def _consumers(claim: ObjectView) -> set[str]:
    return {str(consumer.get("name")) for consumer in reserved_for(claim)}


def _users(claim: ObjectView) -> str:
    names = sorted(_consumers(claim))
    return f"{', '.join(names)} asked for it" if names else ""


def _for(obj: ObjectView) -> str:
    owner = controller_of(obj)
    return f" for {owner['kind']} {owner['name']}" if owner else ""


def _calls(records: NodeRecords, uids: set[str]) -> Iterator[Sentence]:
    for call in records.calls:
        if call.uid in uids:
            yield Sentence(0, call.time, _call(call))


def _call(call: DriverCall) -> str:
    did = "gave back" if call.unprepares else "prepared"
    text = f"driver {call.driver} on node {call.node} {did} the devices of ResourceClaim {call.name}."
    return (
        f"driver {call.driver} on node {call.node} failed {call.call}: {call.error}" if call.error else text
    )


def _who(write: Write) -> str:
    user = f" as {write.user}" if write.user and not write.user.startswith("system:") else ""
    return f"{write.by or 'somebody'}{user}"


def _at(write: Write) -> str:
    return f" at revision {write.revision}"


def _place(write: Write) -> tuple[str, str, str]:
    return write.resource, write.namespace, write.name


def _condition(obj: ObjectView, kind: str) -> Mapping[str, Any]:
    return find_condition(obj, kind) or {}

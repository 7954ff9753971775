"""Attributes what a failed check found to its writers, and lists what components complained of meanwhile."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.claim_users import reservation
from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.objects import ObjectView
from kubeskew.conformance.evidence.aspects import claim_names, results
from kubeskew.conformance.evidence.components import drivers_of, version_at
from kubeskew.conformance.evidence.inside import DevicesInside
from kubeskew.conformance.evidence.log import BRANCHED, FAULT, KUBELET, ComponentChange, Logged, Write, uid_of
from kubeskew.conformance.evidence.nodes import NodeRecords

_OWN_CLIENT = "kubeskew"
_UNRESOLVABLE = "unresolvable CDI devices"  # the container runtime's words
_API_SERVER = "kube-apiserver"
_CLAIMS = "resourceclaims.resource.k8s.io"
_SLICES = "resourceslices.resource.k8s.io"
_EVENTS = frozenset({"events", "events.events.k8s.io"})
_PICKED = re.compile(r"(?P<list>\w+)\[\?(?P<key>\w+) *== *'(?P<of>[^']*)'\]")  # conditions[?type == 'Ready']
_WARNINGS_SHOWN = 2
_PODS_SHOWN = 2
_FAILED = "failed"  # of a component that ended with an error, also while it started
_NOT_RESERVED = "not reserved for it, "


def written(write: Write) -> str:
    """Names writer and revision; of a write by the scenario, the server that took it."""
    if _component(write) == _OWN_CLIENT and write.server:
        return f"written by the scenario through kube-apiserver {write.server} at revision {write.revision}"
    return f"written by {write.by} at revision {write.revision}"


def attributed(obj: ObjectView, mismatches: Sequence[str], log: Sequence[Logged]) -> list[str]:
    """Each mismatch, `path: expected …, found …`, gets the writer of what was found."""
    uid = obj["metadata"].get("uid")
    history = [
        entry
        for entry in log
        if isinstance(entry, Write) and uid and entry.value["metadata"].get("uid") == uid
    ]
    return [_attributed(mismatch, history, log) for mismatch in mismatches]


def _attributed(mismatch: str, history: Sequence[Write], log: Sequence[Logged]) -> str:
    """Names, in parentheses behind the mismatch, first the component at fault, as far as the log shows it.

    That is usually the writer of the value. Of a pod that should still wait it is the component that bound
    it, and of a value that deletions should have changed the writer before: an API server only adds to what
    is used.
    """
    path, separator, wanted = mismatch.partition(": expected ")
    if not history or not separator:
        return mismatch
    changes: list[Write] = []
    before = None
    for write in history:
        value = _meant(write.value, path)
        if value != before:
            changes.append(write)
            before = value
    if not changes:
        return f"{mismatch} (the object was last {written(history[-1])})"
    last, earlier = changes[-1], _earlier(changes)
    if path == "status.phase" and wanted.startswith("'Pending'") and (bound := _binding(history)):
        return f"{mismatch} ({_bound(bound)}, {written(last)})"
    if earlier and _component(last) in {_OWN_CLIENT, _API_SERVER} and _deleted_since(last, log):
        return f"{mismatch} (left so by {_who(earlier)}, though objects were deleted, {written(last)})"
    return f"{mismatch} ({written(last)}{f', before by {_who(earlier)}' if earlier else ''})"


def _earlier(changes: Sequence[Write]) -> Write | None:
    """Skips the component that wrote last, and the scenario."""
    own = {_OWN_CLIENT, _component(changes[-1])}
    return next((write for write in reversed(changes) if _component(write) not in own), None)


def _deleted_since(write: Write, log: Sequence[Logged]) -> bool:
    return any(
        isinstance(entry, Write)
        and (entry.verb, entry.namespace) == ("delete", write.namespace)
        and entry.revision > write.revision
        for entry in log
    )


def _binding(pod: Sequence[Write]) -> Write | None:
    return next((write for write in pod if (write.value.get("spec") or {}).get("nodeName")), None)


def _bound(write: Write) -> str:
    return f"bound to {write.value['spec']['nodeName']} by {_who(write)}"


def _who(write: Write) -> str:
    return f"{write.by} at revision {write.revision}"


def _component(write: Write) -> str:
    return write.by.partition(" ")[0]


def last_written(obj: ObjectView, log: Sequence[Logged]) -> str:
    """The text, in parentheses, is empty if the log has no write of the object."""
    uid = obj["metadata"].get("uid")
    writes = [
        entry for entry in log if isinstance(entry, Write) and entry.value["metadata"].get("uid") == uid
    ]
    return f" (last {written(writes[-1])})" if uid and writes else ""


def _meant(obj: Any, path: str) -> Any:
    """An expression stands for the condition that it picks, or for the value in front of it."""
    place, _, expression = path.partition("(")
    value = value_at(obj, place.rstrip(".["))
    if picked := _PICKED.match(expression):
        items = value_at(value, picked["list"]) or []
        same = [
            item for item in items if isinstance(item, Mapping) and item.get(picked["key"]) == picked["of"]
        ]
        return same or None
    return value


def value_at(obj: Any, path: str) -> Any:
    """Follows a path such as `status.conditions[0].type`; None if there is none.

    Keys may have dots in them: the longest that is there is meant.
    """
    if not path:
        return obj
    if isinstance(obj, list) and path.startswith("["):
        position, _, rest = path[1:].partition("]")
        found = position.isdigit() and int(position) < len(obj)
        return value_at(obj[int(position)], rest.lstrip(".")) if found else None
    if not isinstance(obj, Mapping):
        return None
    keys = [key for key in obj if path == key or path.startswith((f"{key}.", f"{key}["))]
    if not keys:
        return None
    key = max(keys, key=len)
    return value_at(obj[key], path[len(key) :].lstrip("."))


def background(
    log: Sequence[Logged],
    kind: str,
    namespace: str,
    name: str,
    since: int,
    shown: Sequence[ObjectView],
    lacking: ObjectView | None = None,
) -> str:
    """Texts of what led to a failed check: deletions of the kind, warnings and failures of components, and
    the placing of pods.

    What was written up to the revision `since` counts only for placing pods: clocks may have been set back
    since then. `shown` are the objects that were found; without any, the deletion of the object of the `name`
    counts. Where there are more warnings than can be shown, those of the object that is `lacking` are kept.
    """
    warned = warnings(log, namespace, since, lacking)
    uids = [str(obj["metadata"].get("uid")) for obj in shown if obj.get("kind") == "Pod"]
    uids = list(dict.fromkeys([*uids, *(uid for uid, _ in warned)]))[:_PODS_SHOWN]
    happened = deletions(log, kind, namespace, name, since) + [text for _, text in warned]
    happened += [*failures(log), *filter(None, (placing(log, uid) for uid in uids))]
    return "".join(f"; {text}" for text in happened)


def warnings(
    log: Sequence[Logged], namespace: str, since: int, lacking: ObjectView | None = None
) -> list[tuple[str, str]]:
    """The last two warnings of components in a namespace after a revision, those of the object that is
    `lacking` counted as the last; warnings of objects that are gone are left out.

    Each has the UID of its object.
    """
    alive: dict[str, bool] = {}
    found: dict[tuple[str, str], str] = {}
    for entry in log:
        if not isinstance(entry, Write):
            continue
        alive[str(entry.value["metadata"].get("uid"))] = entry.verb != "delete"
        if entry.resource in _EVENTS and entry.namespace == namespace and entry.revision > since:
            for key, text in _warning(entry, log):
                found.pop(key, None)
                found[key] = text
    shown = [(uid, text) for (uid, _), text in found.items() if alive.get(uid, True)]
    if lacking is not None:
        shown.sort(key=lambda pair: pair[0] == lacking["metadata"].get("uid"))
    return shown[-_WARNINGS_SHOWN:]


def _warning(write: Write, log: Sequence[Logged]) -> Iterator[tuple[tuple[str, str], str]]:
    event = write.value
    if event.get("type") != "Warning" or write.verb == "delete":
        return
    about = event.get("involvedObject") or event.get("regarding") or {}
    reason, message = event.get("reason") or "", event.get("message") or event.get("note") or ""
    uid = str(about.get("uid"))
    drivers = _drivers(log, uid) if _UNRESOLVABLE in message else []
    named = (
        f"CDI devices of {', '.join(drivers)}, " if drivers else ""
    )  # these drivers should have written them
    yield (
        (uid, str(reason)),
        f"{reason} of {about.get('kind')} {about.get('name')}: {message} ({named}{written(write)})",
    )


def failures(log: Sequence[Logged]) -> list[str]:
    """Components that have failed and did not start since then, each with its error."""
    return [
        f"{' '.join(filter(None, (change.component, change.version)))} failed: {change.detail}"
        for change in failed(log)
    ]


def failed(log: Sequence[Logged]) -> list[ComponentChange]:
    """The failures of components that did not start since then."""
    last: dict[str, ComponentChange] = {}
    for entry in log:
        if not isinstance(entry, ComponentChange) or entry.what.startswith(FAULT):
            continue
        if entry.what in BRANCHED:
            last.clear()
        else:
            last[entry.component] = entry
    return [change for change in last.values() if change.what == _FAILED]


def _drivers(log: Sequence[Logged], pod_uid: str) -> list[str]:
    writes = [entry for entry in log if isinstance(entry, Write)]
    names = {
        (write.namespace, name)
        for write in writes
        if write.resource == "pods" and uid_of(write.value) == pod_uid
        for name in claim_names(write.value)
    }
    claims = [
        write for write in writes if write.resource == _CLAIMS and (write.namespace, write.name) in names
    ]
    return sorted({result["driver"] for claim in claims for result in results(claim.value)})


def placing(log: Sequence[Logged], uid: str) -> str:
    """Names who bound a pod to its node and who gave its claims their devices; it is empty if nobody did."""
    writes = [entry for entry in log if isinstance(entry, Write)]
    pod = [write for write in writes if write.resource == "pods" and uid_of(write.value) == uid]
    bound = _binding(pod)
    if bound is None:
        return ""
    metadata = bound.value["metadata"]
    parts = [f"Pod {metadata['name']} {_bound(bound)}"]
    for name in sorted(claim_names(pod[-1].value)):
        place = (_CLAIMS, metadata["namespace"], name)
        claim = [write for write in writes if (write.resource, write.namespace, write.name) == place]
        given = [write for write in claim if results(write.value)]
        if given and given[-1] is claim[-1]:
            first = next(write for write in given if results(write.value) == results(claim[-1].value))
            reserved = reservation(claim[-1].value, pod[-1].value, groups=True)
            devices = ", ".join(result["device"] for result in results(first.value))
            parts.append(
                f"its claim {name} {'' if reserved else _NOT_RESERVED}given {devices} by {_who(first)}"
                f"{_tainted(first, writes)}"
            )
    return ", ".join(parts)


def _tainted(claim: Write, writes: Sequence[Write]) -> str:
    """Names who had tainted a device before a claim was given it, and how long before; it is empty if nobody
    had.

    A scheduler knows only what its watch has delivered: a device that was tainted just before, it gives as if
    it were not.
    """
    for result in results(claim.value):
        last: Write | None = None
        for write in writes:
            if write.revision < claim.revision and write.resource == _SLICES:
                taints = _taints(write.value, result)
                if taints is not None:
                    last = (last or write) if taints else None
        if last is not None:
            seconds = parse_timestamp(claim.time) - parse_timestamp(last.time)
            return f", {seconds.total_seconds():.1f} s after {result['device']} was tainted by {_who(last)}"
    return ""


def _taints(published: ObjectView, result: ObjectView) -> Sequence[Any] | None:
    """None if the device is not in the slice."""
    spec = published.get("spec") or {}
    if (spec.get("driver"), (spec.get("pool") or {}).get("name")) != (
        result.get("driver"),
        result.get("pool"),
    ):
        return None
    for device in spec.get("devices") or []:
        if device.get("name") == result.get("device"):
            return (device.get("basic") or device).get("taints") or ()
    return None


def running(log: Sequence[Logged], records: NodeRecords, namespace: str, name: str) -> str:
    """Names who runs a pod, placed it and gave its claims their devices; it is empty if the log does not show
    it.

    First comes who put something else into its containers than its claims were allocated, by the records of
    its node: a driver or the kubelet. Otherwise who runs the pod answers for the contents of its containers;
    but that comes last if the pod has a claim that is not reserved for it.
    """
    writes = [entry for entry in log if isinstance(entry, Write) and entry.resource == "pods"]
    pod = [write for write in writes if (write.namespace, write.name) == (namespace, name)]
    if not pod:
        return ""
    by_kubelet = [
        write
        for write in pod
        if uid_of(write.value) == uid_of(pod[-1].value) and _component(write).startswith(KUBELET)
    ]
    ran, placed = f"run by {by_kubelet[-1].by}" if by_kubelet else "", placing(log, uid_of(pod[-1].value))
    wrong = list(dict.fromkeys(_wrong_inside(log, records, uid_of(pod[-1].value))))
    return ", ".join(filter(None, (placed, ran) if _NOT_RESERVED in placed else (*wrong, ran, placed)))


def _wrong_inside(log: Sequence[Logged], records: NodeRecords, pod_uid: str) -> Iterator[str]:
    inside, changes = DevicesInside(), [entry for entry in log if isinstance(entry, ComponentChange)]
    for entry in log:
        if isinstance(entry, Write):
            inside.see(entry)
    containers = [event for event in records.containers if event.pod_uid == pod_uid]
    for found in inside.disagreements(NodeRecords(records.calls, containers), drivers_of(changes)):
        if found.uid == pod_uid:
            yield found.with_author(version_at(changes, found.component, found.time))


def deletions(log: Sequence[Logged], kind: str, namespace: str, name: str, since: int) -> list[str]:
    """With a name, its deletion counts; otherwise the last ones after a revision."""
    marked: dict[str, Write] = {}
    found = []
    for entry in log:
        if not isinstance(entry, Write) or entry.value.get("kind") != kind:
            continue
        if entry.namespace not in {namespace, ""} or name not in {"", entry.name}:
            continue
        uid = str(entry.value["metadata"].get("uid"))
        if entry.verb == "delete":
            asked = marked.get(uid)
            why = f", to be deleted as {asked.by} wrote at revision {asked.revision}" if asked else ""
            text = f"{kind} {entry.name} deleted by {entry.by} at revision {entry.revision}{why}"
            found += [text] if name or entry.revision > since else []
        elif entry.value["metadata"].get("deletionTimestamp"):
            marked.setdefault(uid, entry)
    return found[-1:] if name else found[-_WARNINGS_SHOWN:]

"""The page's data from a recording: the whole over time, one moment, one object.

The picture of a moment shows the devices of each node, with their claims and pods.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import yaml

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.conditions import is_condition_true
from kubeskew.apimachinery.objects import ObjectView
from kubeskew.cli.ui.log_recorder import Key, Recording
from kubeskew.conformance.evidence.aspects import results
from kubeskew.conformance.evidence.changes import FieldChange, changes
from kubeskew.conformance.evidence.components import component_runs, fault_moments
from kubeskew.conformance.evidence.lives import object_lives, pod_lives
from kubeskew.conformance.evidence.log import ComponentChange, Write
from kubeskew.conformance.evidence.nodes import NodeRecords
from kubeskew.conformance.evidence.secrets import masked

_SHARED = ""  # the place of devices that no single node has

Place = dict[str, Any]
Answer = dict[str, Any]


def picture(objects: Iterable[ObjectView]) -> dict[str, Any]:
    """The picture has `{nodes, shared, waiting}`.

    A node has its devices, each with the claims that have it and their pods, and the pods that run there
    without a device. `shared` are devices that several nodes can reach. `waiting` are pods without a node and
    claims without a device.
    """
    by_kind: dict[str, list[ObjectView]] = {}
    for each in objects:
        by_kind.setdefault(str(each.get("kind")), []).append(each)
    pods, claims = by_kind.get("Pod", []), by_kind.get("ResourceClaim", [])
    places: dict[str, Place] = {node["metadata"]["name"]: _node(node) for node in by_kind.get("Node", [])}
    shared: Place = {"devices": []}
    devices: dict[tuple[str, str, str], Place] = {}
    for each in by_kind.get("ResourceSlice", []):
        for node, device in _published(each):
            place = places.get(node, shared)
            devices[device["driver"], device["pool"], device["device"]] = device
            place["devices"].append(device)
    phases = {_name(pod): (pod.get("status") or {}).get("phase", "") for pod in pods}
    held: dict[str, None] = {}
    waiting_claims = []
    for claim in claims:
        entry, given = _claim(claim, phases), results(claim)
        for each in given:
            key = (str(each.get("driver")), str(each.get("pool")), str(each.get("device")))
            if key not in devices:  # it is not published any more
                devices[key] = _device(*key, withdrawn=True)
                places.get(key[1], shared)["devices"].append(devices[key])
            devices[key]["claims"].append(entry)
        if given:
            held.update(dict.fromkeys(pod["name"] for pod in entry["pods"]))
        else:
            waiting_claims.append(entry)
    waiting_pods = []
    for pod in pods:
        where = (pod.get("spec") or {}).get("nodeName")
        entry = {"name": _name(pod), "phase": phases[_name(pod)]}
        if where not in places:
            waiting_pods.append(entry)
        elif _name(pod) not in held:
            places[where]["pods"].append(entry)
    return {
        "nodes": list(places.values()),
        "shared": shared["devices"],
        "waiting": {"pods": waiting_pods, "claims": waiting_claims},
    }


def _node(node: ObjectView) -> Place:
    status = node.get("status") or {}
    extended = {name: count for name, count in (status.get("allocatable") or {}).items() if "/" in name}
    return {
        "name": node["metadata"]["name"],
        "version": (status.get("nodeInfo") or {}).get("kubeletVersion", ""),
        "ready": is_condition_true(node, "Ready"),
        "extendedResources": extended,
        "devices": [],
        "pods": [],
    }


def _published(slice_: ObjectView) -> Iterable[tuple[str, Place]]:
    """A device is on the node that has it, or on _SHARED."""
    spec = slice_.get("spec") or {}
    for device in spec.get("devices") or ():
        basic: Mapping[str, Any] = {**device, **(device.get("basic") or {})}
        node = basic.get("nodeName") or spec.get("nodeName") or _SHARED
        taints = [f"{each.get('key')}:{each.get('effect')}" for each in basic.get("taints") or ()]
        pool = str((spec.get("pool") or {}).get("name"))
        yield node, _device(str(spec.get("driver")), pool, str(device.get("name")), taints)


def _device(
    driver: str, pool: str, device: str, taints: Sequence[str] = (), *, withdrawn: bool = False
) -> Place:
    place = {"driver": driver, "pool": pool, "device": device}
    return {**place, "taints": [*taints], "withdrawn": withdrawn, "claims": []}


def _claim(claim: ObjectView, phases: Mapping[str, str]) -> Place:
    namespace = claim["metadata"].get("namespace", "")
    names = [f"{namespace}/{each.get('name')}" for each in reserved_for(claim)]
    return {
        "name": _name(claim),
        "pods": [{"name": name, "phase": phases.get(name, "gone")} for name in names],
    }


def _name(obj: ObjectView) -> str:
    metadata = obj["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def timeline(recording: Recording, records: NodeRecords) -> Answer:
    """The answer is the input of `lanes.js`, in the form of a report's cell, with the extent of the log."""
    log = recording.entries
    return {
        "oldest": recording.oldest,
        "newest": recording.newest,
        "count": len(log),
        "problem": recording.problem,
        "began": log[0].time if log else "",
        "ended": log[-1].time if log else "",
        "components": [asdict(run) for run in component_runs(log)],
        "pods": [asdict(life) for life in pod_lives(log)],
        "objects": [asdict(life) for life in object_lives(log)],
        "faults": [asdict(moment) for moment in fault_moments(log)],
        "calls": [asdict(call) for call in records.calls],
    }


def moment(recording: Recording, revision: int) -> Answer:
    at = list(recording.objects(revision))
    return {
        "revision": revision,
        "time": recording.time_of(revision),
        "happened": [_happened(recording, entry) for entry in recording.entries_at(revision)],
        "components": _components(recording, revision),
        "objects": [
            {
                "resource": write.resource,
                "namespace": write.namespace,
                "name": write.name,
                "revision": write.revision,
                "by": write.by,
            }
            for write in at
        ],
        "picture": picture(write.value for write in at),
    }


def _components(recording: Recording, revision: int) -> list[Answer]:
    log = [entry for entry in recording.entries if entry.revision <= revision]
    running = [run for run in component_runs(log) if not run.until]
    return [{"name": run.component, "version": run.version, "gates": run.gates} for run in running]


def _happened(recording: Recording, entry: Write | ComponentChange) -> Answer:
    if isinstance(entry, ComponentChange):
        what = " ".join(filter(None, (entry.what, entry.version, entry.gates, entry.detail)))
        return {"what": f"{entry.component} {what}", "by": "", "user": "", "server": "", "changes": []}
    key = (entry.resource, entry.namespace, entry.name)
    return {
        "what": f"{entry.verb} {entry.resource} {'/'.join(filter(None, key[1:]))}",
        "key": key,
        "by": entry.by,
        "user": entry.user,
        "server": entry.server,
        "changes": [] if entry.verb == "delete" else _changes(recording, entry),
    }


def _changes(recording: Recording, write: Write) -> list[str]:
    before = recording.last_write((write.resource, write.namespace, write.name), write.revision - 1)
    if before is None or before.verb == "delete":
        return []
    return [str(change) for change in changes(before.value, write.value)]


def one_object(recording: Recording, key: Key, revision: int, against: int | None = None) -> Answer | None:
    """The answer has the writer, and line by line the difference from the write before or, if given, from the
    revision `against`. None if the log has nothing of the object by then.
    """
    write = recording.last_write(key, revision)
    if write is None:
        return None
    writes = recording.history(key)
    index = next(number for number, each in enumerate(writes) if each is write)
    before = recording.last_write(key, write.revision - 1 if against is None else against)
    old, new = _state(before), _state(write)
    return {
        "resource": write.resource,
        "namespace": write.namespace,
        "name": write.name,
        "revision": write.revision,
        "time": write.time,
        "verb": write.verb,
        "by": write.by,
        "user": write.user,
        "server": write.server,
        "against": before.revision if before is not None else None,
        "previous": writes[index - 1].revision if index else None,
        "next": writes[index + 1].revision if index + 1 < len(writes) else None,
        "number": index + 1,
        "writes": len(writes),
        "changes": [_change(each) for each in changes(old, new)]
        if old is not None and new is not None
        else [],
        "lines": _lines(old, new),
    }


def _state(write: Write | None) -> Mapping[str, Any] | None:
    """None after a deletion."""
    return None if write is None or write.verb == "delete" else write.value


def _change(change: FieldChange) -> Answer:
    return {"text": str(change), "path": change.path, "before": change.before, "after": change.after}


def _lines(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Lines are YAML, each with its sign: new, gone, or unchanged."""
    before, after = map(_text, masked(old, new))
    if old is None:
        return [(" ", line) for line in after]
    found = [(line[0], line[2:]) for line in difflib.ndiff(before, after)]
    return [(sign, line) for sign, line in found if sign != "?"]


def _text(value: Mapping[str, Any] | None) -> Sequence[str]:
    if value is None:
        return []
    metadata = {name: each for name, each in value["metadata"].items() if name != "managedFields"}
    return yaml.safe_dump({**value, "metadata": metadata}, sort_keys=False, width=100).splitlines()

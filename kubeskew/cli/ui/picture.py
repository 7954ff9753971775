"""Draws up which pod has which device of which node, by which claim, from the objects of one moment."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.claim_users import reserved_for
from kubeskew.apimachinery.objects import ObjectView
from kubeskew.conformance.evidence.aspects import results

_SHARED = ""  # the place of devices that no single node has

Place = dict[str, Any]


def picture(objects: Iterable[ObjectView]) -> dict[str, Any]:
    """Returns `{nodes, shared, waiting}`.

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
    ready = next(
        (each["status"] for each in status.get("conditions") or () if each["type"] == "Ready"), "Unknown"
    )
    extended = {name: count for name, count in (status.get("allocatable") or {}).items() if "/" in name}
    return {
        "name": node["metadata"]["name"],
        "version": (status.get("nodeInfo") or {}).get("kubeletVersion", ""),
        "ready": ready == "True",
        "extendedResources": extended,
        "devices": [],
        "pods": [],
    }


def _published(slice_: ObjectView) -> Iterable[tuple[str, Place]]:
    """Yields the devices of a slice, each with the node that has it."""
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

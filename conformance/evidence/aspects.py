"""Lists what of a pod, its claims and its node has to stay as it is for the pod to be undisturbed."""

from collections.abc import Iterator, Sequence
from typing import Any

from kubeskew.apimachinery.claim_users import reservation
from kubeskew.apimachinery.objects import ObjectView

Aspects = dict[str, Any]  # by what people call it

# Every kubelet writes these; other conditions come and go with its version and gates.
_CONDITIONS = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
_STATUS = ("phase", "reason", "startTime", "podIP", "extendedResourceClaimStatus")


def of_pod(pod: ObjectView) -> Aspects:
    """Aspects of a pod: where it runs, the state of its containers, its conditions, the claims made for
    it."""
    status = pod.get("status") or {}
    found: Aspects = {
        "deletionTimestamp": (pod.get("metadata") or {}).get("deletionTimestamp"),
        "node": (pod.get("spec") or {}).get("nodeName"),
    }
    found |= {name: status.get(name) for name in _STATUS}
    for claim in status.get("resourceClaimStatuses") or []:
        found[f"claim for {claim['name']}"] = claim.get("resourceClaimName")
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or []:
            for name in ("containerID", "restartCount", "state", "ready"):
                found[f"{container['name']}.{name}"] = container.get(name)
    return found | dict(_conditions(status))


def comparable(old: Aspects, new: Aspects) -> Aspects:
    """Leaves out conditions that have gone, unless every kubelet writes them."""
    return {
        name: value
        for name, value in old.items()
        if name in new
        or not name.startswith("condition ")
        or name.removeprefix("condition ").startswith(_CONDITIONS)
    }


def _conditions(status: ObjectView) -> Iterator[tuple[str, str]]:
    for condition in status.get("conditions") or []:
        since = f" since {condition['lastTransitionTime']}" if condition.get("lastTransitionTime") else ""
        yield f"condition {condition['type']}", f"{condition['status']}{since}"


def of_claim(claim: ObjectView, name: str, pod: ObjectView) -> Aspects:
    devices = [
        "/".join(str(result.get(key)) for key in ("request", "driver", "pool", "device"))
        for result in results(claim)
    ]
    return {
        f"claim {name} exists": bool(claim),
        f"claim {name}'s deletionTimestamp": (claim.get("metadata") or {}).get("deletionTimestamp"),
        f"claim {name}'s devices": sorted(devices),
        f"claim {name} reserved for the pod": reservation(claim, pod, groups=True) is not None,
    }


def results(claim: ObjectView) -> Sequence[ObjectView]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []


def readiness(node: ObjectView) -> Aspects:
    name = node["metadata"]["name"]
    conditions = dict(_conditions(node.get("status") or {}))
    return {f"node {name}'s condition Ready": conditions.get("condition Ready")}


def resources(node: ObjectView, used: set[str]) -> Aspects:
    name, status = node["metadata"]["name"], node.get("status") or {}
    return {
        f"node {name}'s {kind} of {resource}": (status.get(kind) or {}).get(resource)
        for kind in ("capacity", "allocatable")
        for resource in sorted(used)
    }


def used_resources(pod: ObjectView) -> set[str]:
    """Init containers and containers count, with requests and limits."""
    spec = pod.get("spec") or {}
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    wanted = [container.get("resources") or {} for container in containers]
    return {name for entry in wanted for kind in ("requests", "limits") for name in entry.get(kind) or {}}


def claim_names(pod: ObjectView) -> set[str]:
    """Claims of a pod are named in its spec, made from templates, or made for extended resources.

    Up to 1.27 the name of a claim from a template follows from pod and entry; later the status has it.
    Up to 1.30 an entry has its claim or template in `source`.
    """
    status = pod.get("status") or {}
    generated = {
        entry["name"]: entry.get("resourceClaimName") for entry in status.get("resourceClaimStatuses") or []
    }
    names = {*generated.values(), (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")}
    for entry in (pod.get("spec") or {}).get("resourceClaims") or []:
        source = entry.get("source") or entry
        made = generated.get(entry["name"], f"{pod['metadata']['name']}-{entry['name']}")
        names.add(source.get("resourceClaimName") or made)
    return {name for name in names if name}

"""Decides when and why a claim's users are evicted: pure functions over claims, slices and taint rules.

Behaviour of k8s.io/kubernetes/pkg/controller/devicetainteviction, 1.33 … 1.37.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.objects import Object

NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class Eviction:
    """The time of an eviction, and its rules (by uid; none for a slice's own taints)."""

    when: datetime
    rules: frozenset[str]


def devices_of(slices: Iterable[Object]) -> dict[str, Object]:
    """Returns the devices of one pool by name, from slices of the newest generation."""
    listed = list(slices)
    newest = max((slice_["spec"]["pool"].get("generation") or 0 for slice_ in listed), default=0)
    found: dict[str, Object] = {}
    for slice_ in listed:
        if (slice_["spec"]["pool"].get("generation") or 0) == newest:
            for device in slice_["spec"].get("devices") or ():
                found.setdefault(device["name"], device.get("basic") or device)
    return found


def tainted(devices: Mapping[str, Object]) -> dict[str, list[Object]]:
    """Returns the NoExecute taints that drivers put on devices."""
    found = {name: [*_no_execute(device)] for name, device in devices.items()}
    return {name: taints for name, taints in found.items() if taints}


def _no_execute(device: Object) -> Iterator[Object]:
    return (taint for taint in device.get("taints") or () if taint.get("effect") == NO_EXECUTE)


def tolerates(toleration: Object, taint: Object) -> bool:
    """Returns whether a toleration covers a taint.

    Source: k8s.io/dynamic-resource-allocation/resourceclaim (ToleratesTaint).
    """
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Equal":
        return bool((toleration.get("value") or "") == (taint.get("value") or ""))
    return bool(operator == "Exists")


def eviction_time(taint: Object, tolerations: Iterable[Object]) -> datetime | None:
    """Returns when a taint ends the use of a device; None if it is tolerated for ever.

    As upstream, a toleration must name NoExecute; one of every effect does not count.
    """
    seconds: int | None = None
    for toleration in tolerations:
        if toleration.get("effect") != NO_EXECUTE or not tolerates(toleration, taint):
            continue
        if toleration.get("tolerationSeconds") is None:
            return None
        patience = max(0, toleration["tolerationSeconds"])
        seconds = patience if seconds is None else min(seconds, patience)
    added = taint.get("timeAdded")
    return parse_timestamp(added) + timedelta(seconds=seconds or 0) if added else None


def joined(evictions: Iterable[Eviction | None]) -> Eviction | None:
    """Returns the earliest of several evictions, with all their reasons."""
    found = [eviction for eviction in evictions if eviction is not None]
    if not found:
        return None
    return Eviction(
        min(eviction.when for eviction in found), frozenset().union(*(eviction.rules for eviction in found))
    )

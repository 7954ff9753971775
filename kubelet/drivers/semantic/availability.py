"""Decides whether what a claim was allocated is still there, when it is to be prepared.

The scheduler may allocate while the driver is reducing what it has, so that the driver has to look again
("must double-check that the allocated resources are still available", KEP-4381 as drafted).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.drivers.semantic.resources import id_of


class Amount(NamedTuple):
    """An amount of a counter that a claim has."""

    resource: str
    attribute: str
    number: int


def unavailable(
    resources: Sequence[Object], held: Iterable[Amount], resource_ids: Iterable[str], wanted: Sequence[Amount]
) -> str:
    """Returns why a claim cannot have what it was allocated; empty if it can.

    `held` is what the prepared claims of the node have, `resource_ids` are those that were chosen.
    """
    known = {id_of(resource): _counters(resource) for resource in resources}
    taken: Counter[tuple[str, str]] = Counter()
    for entry in held:
        taken[entry.resource, entry.attribute] += entry.number
    for name in (*resource_ids, *(entry.resource for entry in wanted)):
        if name not in known:
            return f'resource "{name}" is not available'
    for entry in wanted:
        there = known[entry.resource].get(entry.attribute)
        if there is None:
            return f'resource "{entry.resource}" has no counter "{entry.attribute}"'
        taken[entry.resource, entry.attribute] += entry.number
        left = there - taken[entry.resource, entry.attribute] + entry.number
        if left < entry.number:
            return (
                f'counter "{entry.attribute}" of resource "{entry.resource}" is not available: '
                f"{entry.number} allocated, {max(left, 0)} of {there} left"
            )
    return ""


def _counters(resource: Object) -> Mapping[str, int]:
    attributes: Iterable[Any] = resource.get("attributes") or ()
    return {entry["name"]: int(entry["counter"]["count"]) for entry in attributes if "counter" in entry}

"""Reads semantic handles that a kubelet hands over, and decides whether what they name is still there.

A handle has what was allocated, and the parameters of that time. The scheduler may allocate while the driver
is reducing what it has, so that the driver has to look again when a claim is to be prepared ("must
double-check that the allocated resources are still available", KEP-4381 as drafted).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from kubeskew.apimachinery.objects import Object
from kubeskew.kubelet.drivers.claims import ClaimError, variable
from kubeskew.kubelet.drivers.node_resources import id_of


class Amount(NamedTuple):
    """An amount of a counter that a claim has."""

    resource: str
    attribute: str
    number: int


def unavailable(
    resources: Sequence[Object], held: Iterable[Amount], resource_ids: Iterable[str], wanted: Sequence[Amount]
) -> str:
    """An empty text means that the claim can have what it was allocated; else it gives the reason why not.

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


def amounts_in(handles: Sequence[Any]) -> list[Amount]:
    """Raises ClaimError for an allocation of a model that is not known."""
    found = []
    for handle in handles:
        for index, allocation in enumerate(handle.allocations):
            if allocation.WhichOneof("model") is None:
                raise ClaimError(f"allocation {index} has no semantic model that this driver knows")
            counter = allocation.counter
            found.append(Amount(counter.resource_id, counter.name, counter.count))
    return found


def resources_in(handles: Sequence[Any]) -> list[str]:
    return [handle.resource_id for handle in handles if handle.resource_id]


def variables_in(driver: str, handles: Sequence[Any], amounts: Iterable[Amount]) -> dict[str, str]:
    """Variables come from the parameters of class and claim, and from the allocation.

    The variable named after the driver has the resources, one more per counter the amount. Raises ClaimError.
    """
    found: dict[str, str] = {}
    chosen = resources_in(handles)
    for handle in handles:
        found |= _parameters("admin", handle.class_parameters.raw)
        found |= _parameters("user", handle.claim_parameters.raw)
    for amount in amounts:
        found[variable(f"{driver}_{amount.attribute}")] = str(amount.number)
        chosen.append(amount.resource)
    found[variable(driver)] = ",".join(dict.fromkeys(chosen))
    return found


def _parameters(kind: str, content: bytes) -> dict[str, str]:
    """A snapshot of parameters configures with its `spec`, that of a ConfigMap with its `data`. Raises
    ClaimError."""
    if not content:
        return {}
    try:
        snapshot = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ClaimError(f"decoding {kind} parameters: {error}") from error
    configured = snapshot.get("spec", snapshot.get("data")) if isinstance(snapshot, dict) else None
    return dict(_flat(kind, configured)) if isinstance(configured, dict) else {}


def _flat(prefix: str, value: Any) -> Iterable[tuple[str, str]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _flat(f"{prefix}_{key.lower()}", part)
    elif value is not None:
        yield variable(prefix), value if isinstance(value, str) else orjson.dumps(value).decode()

"""Checks CSINodes.

Source: pkg/apis/storage/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    child,
    duplicate,
    index,
    invalid,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.shared.amounts import NOT_NEGATIVE
from kubeskew.apiserver.registry.shared.repeats import repeats
from kubeskew.apiserver.registry.storage.driver_names import driver_name_errors

_MAX_NODE_ID = 256


def node_errors(spec: Object) -> Iterator[FieldError]:
    """Checks the spec of a CSINode."""
    seen: set[str] = set()
    for position, driver in enumerate(spec.get("drivers") or []):
        at, name = index("spec.drivers", position), driver.get("name") or ""
        yield from driver_name_errors(name, child(at, "name"))
        node_id = driver.get("nodeID") or ""
        if not node_id:
            yield required(child(at, "nodeID"))
        if len(node_id.encode()) > _MAX_NODE_ID:
            yield invalid(child(at, "nodeID"), node_id, f"must be {_MAX_NODE_ID} characters or less")
        count = (driver.get("allocatable") or {}).get("count")
        if count is not None and count < 0:
            yield invalid(child(child(at, "allocatable"), "count"), count, NOT_NEGATIVE)
        if name in seen:
            yield duplicate(child(at, "name"), name)
        seen.add(name)
        yield from _key_errors(driver.get("topologyKeys") or [], at)


def _key_errors(keys: list[str], path: str) -> Iterator[FieldError]:
    repeated = repeats(keys)
    for position, key in enumerate(keys):
        if not key:
            yield required(path)
        if position in repeated:
            yield duplicate(path, key)
        yield from (invalid(path, key, text) for text in names.qualified_name(key))


def node_update_errors(new: Object, old: Object, *, counts_change: bool) -> Iterator[FieldError]:
    """Checks that a driver's entry stays; `counts_change` (MutableCSINodeAllocatableCount): but for the
    count.
    """
    left_out = {"allocatable"} if counts_change else set()
    for before in (old.get("spec") or {}).get("drivers") or []:
        for after in (new.get("spec") or {}).get("drivers") or []:
            names_of = {*before, *after} - left_out
            same_driver = before.get("name") == after.get("name")
            if same_driver and any(before.get(name) != after.get(name) for name in names_of):
                yield invalid("spec.drivers", _shown_driver(after, left_out), IMMUTABLE)


def _shown_driver(driver: Object, left_out: set[str]) -> Object:
    allocatable = None if "allocatable" in left_out else driver.get("allocatable")
    return {
        "Name": driver.get("name") or "",
        "NodeID": driver.get("nodeID") or "",
        "TopologyKeys": driver.get("topologyKeys"),
        "Allocatable": None if allocatable is None else {"Count": allocatable.get("count")},
    }

"""CSINode: validation, strategy, cells of tables, and the names of CSI drivers.

Sources: pkg/apis/storage/validation/validation.go, pkg/registry/storage/csinode/strategy.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, duplicate, index, invalid, required, too_long
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import VolumeFeatures
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn, ReturnsDeletedObject
from kubeskew.apiserver.registry.generic.strategy import Check, StrategyContext
from kubeskew.apiserver.registry.shared.amounts import NOT_NEGATIVE
from kubeskew.apiserver.registry.shared.repeats import repeats
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

_MAX_NAME = 63
_MAX_NODE_ID = 256


def driver_name_errors(name: str, path: str, features: VolumeFeatures) -> Iterator[FieldError]:
    if not name:
        yield required(path)
        if features.driver_required_alone:
            return
    if len(name.encode()) > _MAX_NAME:
        yield too_long(path, _MAX_NAME)
    yield from (invalid(path, name, text) for text in names.dns1123_subdomain(name.lower()))


def node_errors(spec: Object, features: VolumeFeatures) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, driver in enumerate(spec.get("drivers") or []):
        at, name = index("spec.drivers", position), driver.get("name") or ""
        yield from driver_name_errors(name, child(at, "name"), features)
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
    """A driver's entry stays; `counts_change` (MutableCSINodeAllocatableCount): but for the count."""
    left_out = {"allocatable"} if counts_change else set()
    for before in (old.get("spec") or {}).get("drivers") or []:
        for after in (new.get("spec") or {}).get("drivers") or []:
            names_of = {*before, *after} - left_out
            same_driver = before.get("name") == after.get("name")
            if same_driver and any(
                (before.get(name) or None) != (after.get(name) or None) for name in names_of
            ):
                yield invalid("spec.drivers", _shown_driver(after, left_out), IMMUTABLE)


def _shown_driver(driver: Object, left_out: set[str]) -> Object:
    allocatable = None if "allocatable" in left_out else driver.get("allocatable")
    return {
        "Name": driver.get("name") or "",
        "NodeID": driver.get("nodeID") or "",
        "TopologyKeys": driver.get("topologyKeys"),
        "Allocatable": None if allocatable is None else {"Count": allocatable.get("count")},
    }


class CSINodeStrategy(HandwrittenBuiltIn, ReturnsDeletedObject):
    """Changes are checked as new objects, twice, as upstream."""

    allow_unconditional_update = False
    update_checks = (Check.METADATA, Check.OWN_RULES, Check.METADATA, Check.OWN_RULES, Check.CHANGE)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(node_errors(obj.get("spec") or {}, ctx.features.volumes))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        counts = ctx.features.volumes.counts_change
        return list(node_update_errors(new, old, counts_change=counts))


def csi_node_cells(subject: Subject) -> Cells:
    return {"Drivers": subject.count("spec", "drivers")}

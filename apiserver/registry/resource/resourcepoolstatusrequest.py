"""ResourcePoolStatusRequest: defaults, validation, strategy and cells of tables.

Sources: the markers of k8s.io/api/resource/v1alpha3 and pkg/apis/resource/validation
(validation_resourcepoolstatusrequest.go), 1.36 and 1.37; pkg/apis/resource/v1alpha3/defaults.go,
pkg/registry/resource/resourcepoolstatusrequest/strategy.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import (
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    required,
    too_many,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn, MetadataKeptStatus
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.resource import devices
from kubeskew.apiserver.registry.shared import declared
from kubeskew.apiserver.registry.shared.conditions import condition_errors
from kubeskew.apiserver.registry.shared.declared import at_least, needed
from kubeskew.apiserver.registry.tables.cells import NONE, Cells, Subject, ago

_STATUS_REQUEST_LIMIT = 100
MAX_LIMIT = 1000
MAX_POOLS = 1000
MAX_CONDITIONS = 10
MAX_ERROR_BYTES = 256
MAX_PARTITIONS = 32
_COUNTS = ("totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices")


def default_status_request(obj: Object, _: DefaultingContext) -> None:
    fill_null(struct(obj, "spec"), limit=_STATUS_REQUEST_LIMIT)


def request_errors(spec: Object, rules: DRAFeatures) -> Iterator[FieldError]:
    yield from needed(spec, "driver", "spec", declared.long_name_caseless)
    if spec.get("poolName") is not None:
        yield from declared.pool_name(spec["poolName"], "spec.poolName")
    limit = spec.get("limit")
    if limit is not None:
        yield from declared.at_most(limit, MAX_LIMIT, "spec.limit")
        yield from at_least(limit, 1, "spec.limit")
    attribute = spec.get("defaultPartitionTypeAttribute")
    if attribute is not None:
        at = "spec.defaultPartitionTypeAttribute"
        if rules.partition_types:
            yield from devices.fully_qualified(attribute, at, rules)
        else:
            yield forbidden(at, "")


def request_status_errors(
    status: Object | None, old: Object | None, rules: DRAFeatures
) -> Iterator[FieldError]:
    """A complete status never changes; what did change must be as declared."""
    if status == old:
        return
    if old is not None:
        shown = rules.structs.shown(status, "*resource.ResourcePoolStatusRequestStatus")
        yield invalid("status", shown, IMMUTABLE)
    if status is None:
        return
    before, conditions, at = old or {}, status.get("conditions") or [], "status.conditions"
    if old is None:
        yield from condition_errors(conditions, at, texts=rules.condition_texts)
    if status.get("poolCount") is None:
        yield required("status.poolCount")
    elif status["poolCount"] != before.get("poolCount"):
        yield from at_least(status["poolCount"], 0, "status.poolCount")
    pools = status.get("pools")
    if pools != before.get("pools"):
        yield from devices.each(
            pools, MAX_POOLS, lambda pool, at: _pool(pool, at, rules), "status.pools", rules
        )
    if len(conditions) > MAX_CONDITIONS:
        yield too_many(at, len(conditions), MAX_CONDITIONS)
    elif conditions != (before.get("conditions") or []):
        yield from declared.unique_conditions(conditions, at)


def _pool(pool: Object, path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    yield from needed(pool, "driver", path, declared.long_name_caseless)
    yield from needed(pool, "poolName", path, declared.pool_name)
    generation, at = pool.get("generation") or 0, child(path, "generation")
    yield from at_least(generation, 0, at) if generation else (required(at),)
    if pool.get("resourceSliceCount") is not None:
        yield from at_least(pool["resourceSliceCount"], 1, child(path, "resourceSliceCount"))
    for name in _COUNTS:
        if pool.get(name) is not None:
            yield from at_least(pool[name], 0, child(path, name))
    if pool.get("nodeName") is not None:
        yield from declared.long_name(pool["nodeName"], child(path, "nodeName"))
    text, at = pool.get("validationError"), child(path, "validationError")
    if text is not None and len(text.encode()) > MAX_ERROR_BYTES:
        yield devices.over_length(at, MAX_ERROR_BYTES, rules)
    yield from _partitions(pool.get("partitionSummary") or [], child(path, "partitionSummary"))


def _partitions(partitions: list[Object], path: str) -> Iterator[FieldError]:
    if len(partitions) > MAX_PARTITIONS:
        yield too_many(path, len(partitions), MAX_PARTITIONS)
        return
    seen = set()
    for position, item in enumerate(partitions):
        at, names = index(path, position), (item.get("attribute") or "", item.get("type") or "")
        yield from (required(child(at, name)) for name in ("attribute", "type") if not item.get(name))
        for name in ("total", "allocatable"):
            if item.get(name) is None:
                yield required(child(at, name))
            else:
                yield from at_least(item[name], 0, child(at, name))
        if names in seen:
            yield duplicate(at, dict(zip(("attribute", "type"), names, strict=True)))
        seen.add(names)


class StatusRequestStatus(MetadataKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        now, before = new.get("status"), old.get("status")
        return list(request_status_errors(now, before, ctx.features.devices))


class StatusRequestStrategy(HandwrittenBuiltIn):
    """The spec never changes."""

    status = StatusRequestStatus
    returns_deleted_object = True
    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(request_errors(obj.get("spec") or {}, ctx.features.devices))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        if new.get("spec") != old.get("spec"):
            return [invalid("spec", None, IMMUTABLE)]
        return []


def resource_pool_status_request_cells(subject: Subject) -> Cells:
    state, pools = _request_state(subject), subject.items("status", "pools")
    known = subject.at("status") is not None and state != "Failed"

    def total(name: str) -> str:
        return str(sum(pool.get(name) or 0 for pool in pools)) if known else "-"

    count = subject.number("status", "poolCount")
    partial = state == "Complete" and count > len(pools)
    complete = subject.condition("Complete") or {}
    return {
        "Driver": subject.text("spec", "driver"),
        "Total": total("totalDevices"),
        "Available": total("availableDevices"),
        "Allocated": total("allocatedDevices"),
        "Unavailable": total("unavailableDevices"),
        "Errors": str(sum(bool(pool.get("validationError")) for pool in pools)) if known else "-",
        "Pools": count,
        "Status": f"Complete ({len(pools)}/{count} pools)" if partial else state,
        "Completed": ago(complete.get("lastTransitionTime"), subject.now, NONE),
    }


def _request_state(subject: Subject) -> str:
    for condition in subject.items("status", "conditions"):
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return str(condition["type"])
    return "Pending"

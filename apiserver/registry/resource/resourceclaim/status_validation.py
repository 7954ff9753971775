"""Holds the rules of a ResourceClaim's status. Source: pkg/apis/resource/validation/validation.go, 1.31 to
1.37.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import (
    FieldError,
    Unquoted,
    child,
    forbidden,
    invalid,
    not_supported,
    required,
    show,
    too_many,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.resource import devices
from kubeskew.apiserver.registry.resource.device_taints import binding_errors
from kubeskew.apiserver.registry.resource.resourceclaim.network_data import network_data_errors
from kubeskew.apiserver.registry.resource.resourceclaim.unique_ids import unique_id_errors
from kubeskew.apiserver.registry.resource.resourceclaim.validation import (
    admin_access_text,
    references,
    request_names,
)
from kubeskew.apiserver.registry.resource.skipped_operations import skipped_operation_errors
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.conditions import condition_errors

MAX_RESULTS = 32
MAX_CONDITIONS = 8
MAX_ALLOCATION_CONFIGS = 64
_NO_NEW_USERS = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"


def device_id(device: Object) -> str:
    """Returns the id of a device: driver/pool/device[/shareID]."""
    parts = [device.get(name) or "" for name in ("driver", "pool", "device")]
    return "/".join([*parts, device["shareID"]] if device.get("shareID") else parts)


def _shown_id(device: Object, rules: DRAFeatures) -> Unquoted:
    """Returns the id of a device as errors of the minor show it."""
    if rules.device_ids == "text":
        return Unquoted(device_id(device))
    names = {"Driver": "driver", "Pool": "pool", "Device": "device", "ShareID": "shareID"}
    hidden = rules.device_ids == "hidden"
    return Unquoted(show({shown: {} if hidden else device.get(name) or "" for shown, name in names.items()}))


def claim_status_errors(new: Object, old: Object, rules: DRAFeatures) -> list[FieldError]:
    """Returns errors of a status update; specs are in the shape of v1."""
    status, before = new.get("status") or {}, old.get("status") or {}
    allocation = status.get("allocation")
    users, most = status.get("reservedFor"), rules.max_reserved
    errors = list(
        devices.unique(
            users, most, _user, "status.reservedFor", rules, lambda one: one.get("uid") or "", "uid"
        )
    )
    errors += _devices(status, {device_id(result) for result in results(allocation)}, rules)
    errors += _reservations(new, status, before)
    if before.get("allocation") is not None and allocation is not None:
        if allocation != before["allocation"]:
            shown = rules.structs.shown(allocation, "*resource.AllocationResult")
            errors.append(invalid("status.allocation", shown, IMMUTABLE))
    elif allocation is not None:
        errors += _allocation(allocation, new.get("spec") or {}, rules)
    return errors


def results(allocation: Object | None) -> list[Object]:
    return ((allocation or {}).get("devices") or {}).get("results") or []


def _user(user: Object, path: str) -> Iterator[FieldError]:
    for name in ("resource", "name", "uid"):
        if not user.get(name):
            yield required(child(path, name))


def _reservations(claim: Object, status: Object, before: Object) -> Iterator[FieldError]:
    reserved = status.get("reservedFor") or []
    if not reserved:
        return
    if status.get("allocation") is None:
        yield forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
    elif claim["metadata"].get("deletionTimestamp") or status.get("deallocationRequested"):
        known = before.get("reservedFor") or []
        if any(user not in known for user in reserved):
            yield forbidden("status.reservedFor", _NO_NEW_USERS)


def _devices(status: Object, allocated: set[str], rules: DRAFeatures) -> Iterator[FieldError]:
    def rule(device: Object, at: str) -> Iterator[FieldError]:
        yield from _device(device, at, rules)
        yield from _reported(device, at, allocated, rules)

    yield from devices.unique(
        status.get("devices"),
        None,
        rule,
        "status.devices",
        rules,
        lambda device: _shown_id(device, rules),
        "deviceID",
    )


def _device(device: Object, path: str, rules: DRAFeatures) -> Iterator[FieldError]:
    """Checks the names that identify a device."""
    yield from devices.driver(device.get("driver") or "", child(path, "driver"), rules)
    yield from devices.pool(device.get("pool") or "", child(path, "pool"))
    yield from devices.label(device.get("device") or "", child(path, "device"))


def _reported(device: Object, path: str, allocated: set[str], rules: DRAFeatures) -> Iterator[FieldError]:
    """Checks a driver's status of an allocated device."""
    if device.get("shareID") is not None:
        yield from unique_id_errors(device["shareID"], child(path, "shareID"))
    name = device_id(device)
    if name not in allocated:
        yield invalid(path, _shown_id(device, rules), "must be an allocated device in the claim")
    conditions, at = device.get("conditions") or [], child(path, "conditions")
    if len(conditions) > MAX_CONDITIONS:
        yield too_many(at, len(conditions), MAX_CONDITIONS)
    yield from condition_errors(conditions, at, texts=rules.condition_texts)
    if device.get("data") is not None:
        yield from devices.raw_object(device["data"], child(path, "data"), rules, stored=False)
    if device.get("networkData") is not None:
        yield from network_data_errors(device["networkData"], child(path, "networkData"), rules)


def _allocation(allocation: Object, spec: Object, rules: DRAFeatures) -> Iterator[FieldError]:
    path = "status.allocation"
    names = request_names((spec.get("devices") or {}).get("requests") or [])

    def result(item: Object, at: str) -> Iterator[FieldError]:
        yield from devices.request_reference(names)(item.get("request") or "", child(at, "request"))
        yield from _device(item, at, rules)
        yield from binding_errors(item, at, rules)
        if item.get("shareID") is not None:
            yield from unique_id_errors(item["shareID"], child(at, "shareID"))
        yield from skipped_operation_errors(item.get("skipNodeOperations"), child(at, "skipNodeOperations"))

    def config(item: Object, at: str) -> Iterator[FieldError]:
        source = item.get("source") or ""
        if not source:
            yield required(child(at, "source"))
        elif source not in {"FromClaim", "FromClass"}:
            yield not_supported(child(at, "source"), source, ("FromClaim", "FromClass"))
        yield from references(item, at, names, rules)
        yield from devices.opaque(item, at, rules, stored=False)

    inner, at = allocation.get("devices") or {}, child(path, "devices")
    yield from devices.each(inner.get("results"), MAX_RESULTS, result, child(at, "results"), rules)
    yield from devices.each(inner.get("config"), MAX_ALLOCATION_CONFIGS, config, child(at, "config"), rules)
    if allocation.get("nodeSelector") is not None:
        nodes, at = allocation["nodeSelector"], child(path, "nodeSelector")
        yield from selectors.node_selector_errors(nodes, at, any_value=rules.any_label_values)


def drop_deallocated(new: Object, old: Object) -> None:
    """Removes the status of devices that this update deallocates."""
    status = new.get("status") or {}
    if status.get("devices"):
        status["devices"] = kept_devices(status, status, old.get("status") or {})
        if not status["devices"]:
            del status["devices"]


def kept_devices(told: Object, after: Object, before: Object) -> list[Object]:
    """Returns the devices of the status `told`, without those that go with the allocation of the status
    before.
    """
    gone = {device_id(result) for result in results(before.get("allocation"))}
    gone -= {device_id(result) for result in results(after.get("allocation"))}
    return [device for device in told.get("devices") or () if device_id(device) not in gone]


def admin_results_errors(new: Object, old: Object, label: str) -> list[FieldError]:
    """Returns an error for the first result with administrative access, unless the old status had one
    already."""
    old_results = results((old.get("status") or {}).get("allocation"))
    if any(result.get("adminAccess") for result in old_results):
        return []
    for position, result in enumerate(results((new.get("status") or {}).get("allocation"))):
        if result.get("adminAccess"):
            at = f"status.allocation.devices.results[{position}].adminAccess"
            return [forbidden(at, admin_access_text(label))]
    return []

"""Rules of a ResourceClaim's status. Source: pkg/apis/resource/validation/validation.go, 1.34 to 1.37."""

import re
from collections.abc import Iterator

from apimachinery.errors import Object
from apimachinery.field import (
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
    too_many,
)
from apimachinery.validation.object_meta import IMMUTABLE
from apiserver.registry.validation import devices, selectors
from apiserver.registry.validation.claims import references, request_names

MAX_RESULTS, MAX_CONDITIONS, MAX_ALLOCATION_CONFIGS, MAX_IPS = 32, 8, 64, 16
_UID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
_UID_TEXT = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase "
    "hexadecimal characters"
)
_NO_NEW_USERS = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"


def max_reserved(minor: int) -> int:
    return 256 if minor >= 32 else 32


def device_id(device: Object) -> str:
    """driver/pool/device[/shareID]"""
    parts = [device.get(name) or "" for name in ("driver", "pool", "device")]
    return "/".join([*parts, device["shareID"]] if device.get("shareID") else parts)


def claim_status_errors(new: Object, old: Object, minor: int) -> list[FieldError]:
    """Faults of a status update; specs are in the shape of v1."""
    status, before = new.get("status") or {}, old.get("status") or {}
    allocation = status.get("allocation")
    errors = list(
        devices.unique(
            status.get("reservedFor"),
            max_reserved(minor),
            _user,
            "status.reservedFor",
            lambda one: one.get("uid") or "",
            "uid",
        )
    )
    allocated = {device_id(result) for result in results(allocation)}
    errors += _devices(status.get("devices") or [], allocated)
    errors += _reservations(new, status, before)
    if before.get("allocation") is not None and allocation is not None:
        if allocation != before["allocation"]:
            errors.append(invalid("status.allocation", allocation, IMMUTABLE))
    elif allocation is not None:
        errors += _allocation(allocation, new.get("spec") or {})
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
    elif claim["metadata"].get("deletionTimestamp"):
        known = before.get("reservedFor") or []
        if any(user not in known for user in reserved):
            yield forbidden("status.reservedFor", _NO_NEW_USERS)


def _devices(listed: list[Object], allocated: set[str]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, device in enumerate(listed):
        at = index("status.devices", position)
        name = device_id(device)
        if name not in allocated:
            yield invalid(at, name, "must be an allocated device in the claim")
        yield from devices.driver(device.get("driver") or "", child(at, "driver"))
        yield from devices.pool(device.get("pool") or "", child(at, "pool"))
        yield from devices.label(device.get("device") or "", child(at, "device"))
        conditions = device.get("conditions") or []
        if len(conditions) > MAX_CONDITIONS:
            yield too_many(child(at, "conditions"), len(conditions), MAX_CONDITIONS)
        ips = (device.get("networkData") or {}).get("ips") or []
        if len(ips) > MAX_IPS:
            yield too_many(child(child(at, "networkData"), "ips"), len(ips), MAX_IPS)
        if name in seen:
            yield duplicate(at, name)
        seen.add(name)


def _allocation(allocation: Object, spec: Object) -> Iterator[FieldError]:
    path = "status.allocation"
    names = request_names((spec.get("devices") or {}).get("requests") or [])

    def result(item: Object, at: str) -> Iterator[FieldError]:
        yield from devices.request_reference(names)(item.get("request") or "", child(at, "request"))
        yield from devices.driver(item.get("driver") or "", child(at, "driver"))
        yield from devices.pool(item.get("pool") or "", child(at, "pool"))
        yield from devices.label(item.get("device") or "", child(at, "device"))
        share = item.get("shareID")
        if share is not None and not _UID.match(share):
            yield invalid(child(at, "shareID"), share, _UID_TEXT)

    def config(item: Object, at: str) -> Iterator[FieldError]:
        source = item.get("source") or ""
        if not source:
            yield required(child(at, "source"))
        elif source not in {"FromClaim", "FromClass"}:
            yield not_supported(child(at, "source"), source, ("FromClaim", "FromClass"))
        yield from references(item, at, names)
        yield from devices.opaque(item, at, stored=True)

    inner = allocation.get("devices") or {}
    at = child(path, "devices")
    yield from devices.each(inner.get("results"), MAX_RESULTS, result, child(at, "results"))
    yield from devices.each(inner.get("config"), MAX_ALLOCATION_CONFIGS, config, child(at, "config"))
    if allocation.get("nodeSelector") is not None:
        yield from selectors.node_selector_errors(allocation["nodeSelector"], child(path, "nodeSelector"))


def drop_deallocated(new: Object, old: Object) -> None:
    """Remove the status of devices that this update deallocates."""
    status = new.get("status") or {}
    before = {device_id(result) for result in results((old.get("status") or {}).get("allocation"))}
    gone = before - {device_id(result) for result in results(status.get("allocation"))}
    if gone and status.get("devices"):
        kept = [device for device in status["devices"] if device_id(device) not in gone]
        if kept:
            status["devices"] = kept
        else:
            del status["devices"]


def admin_results_errors(new: Object, old: Object, label: str) -> list[FieldError]:
    """Results with administrative access, unless the old status had some already."""
    old_results = results((old.get("status") or {}).get("allocation"))
    if any(result.get("adminAccess") for result in old_results):
        return []
    text = f"admin access to devices requires the `{label}: true` label on the containing namespace"
    return [
        forbidden(child(index("status.allocation.devices.results", position), "adminAccess"), text)
        for position, result in enumerate(results((new.get("status") or {}).get("allocation")))
        if result.get("adminAccess")
    ]

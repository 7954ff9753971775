"""Holds the rules of classic dynamic resource allocation: claims of classes of drivers, and the talk about
pods' nodes.

Source: pkg/apis/resource/validation/validation.go, 1.26 to 1.30 (PodSchedulingContext: to 1.31).
"""

from collections.abc import Callable, Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    ErrorType,
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.resource import devices
from kubeskew.apiserver.registry.resource.classic.structured import handle_errors
from kubeskew.apiserver.registry.resource.semantic import validation as semantic
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.template_metadata import template_metadata_errors

MAX_USERS = 32
MAX_HANDLES = 32
MAX_HANDLE_BYTES = 16 * 1024
MAX_NODES = 128
_MODES = ("Immediate", "WaitForFirstConsumer")
_NO_NEW_USERS = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"


def claim_errors(spec: Object, path: str) -> Iterator[FieldError]:
    name, mode = spec.get("resourceClassName") or "", spec.get("allocationMode") or ""
    yield from devices.subdomain(name, child(path, "resourceClassName"))
    yield from _parameters(spec.get("parametersRef"), child(path, "parametersRef"))
    if mode not in _MODES:
        yield not_supported(child(path, "allocationMode"), mode, _MODES)


def template_errors(spec: Object) -> Iterator[FieldError]:
    yield from template_metadata_errors(spec.get("metadata") or {}, "spec.metadata")
    yield from claim_errors(spec.get("spec") or {}, "spec.spec")


def change_errors(new: Object, old: Object) -> Iterator[FieldError]:
    if new.get("spec") != old.get("spec"):
        yield invalid("spec", new.get("spec"), IMMUTABLE)


def class_errors(obj: Object) -> Iterator[FieldError]:
    yield from devices.classic_driver(obj.get("driverName") or "", "driverName")
    reference = obj.get("parametersRef")
    yield from _parameters(reference, "parametersRef")
    namespace = (reference or {}).get("namespace")
    if namespace:
        yield from devices.label(namespace, "parametersRef.namespace")
    if obj.get("suitableNodes") is not None:
        yield from selectors.node_selector_errors(obj["suitableNodes"], "suitableNodes", any_value=True)
    yield from semantic.parameter_type_errors(obj)


def _parameters(reference: Object | None, path: str) -> Iterator[FieldError]:
    if reference is not None:
        yield from (required(child(path, name)) for name in ("kind", "name") if not reference.get(name))


def claim_status_errors(new: Object, old: Object) -> Iterator[FieldError]:
    status, before = new.get("status") or {}, old.get("status") or {}
    allocation = status.get("allocation")
    if status.get("driverName"):
        yield from devices.classic_driver(status["driverName"], "status.driverName")
    elif allocation is not None:
        yield required("status.driverName", "must be specified when `allocation` is set")
    yield from _allocation(allocation or {})
    if None not in (allocation, before.get("allocation")) and allocation != before["allocation"]:
        yield invalid("status.allocation", allocation, IMMUTABLE)
    yield from _users(status.get("reservedFor") or [])
    yield from _reservations(new, status, before)
    yield from deallocation_errors(status, before)


def _allocation(allocation: Object) -> Iterator[FieldError]:
    at, handles = "status.allocation.resourceHandles", allocation.get("resourceHandles") or []
    for position, handle in enumerate(handles):
        where = index(at, position)
        yield from devices.classic_driver(handle.get("driverName") or "", child(where, "driverName"))
        if len((handle.get("data") or "").encode()) > MAX_HANDLE_BYTES:
            yield _longer(child(where, "data"), MAX_HANDLE_BYTES)
        yield from handle_errors(handle, where)
        yield from semantic.handle_errors(handle, where)
    if len(handles) > MAX_HANDLES:
        yield _longer(at, MAX_HANDLES)
    if len((allocation.get("resourceHandle") or "").encode()) > MAX_HANDLE_BYTES:  # 1.26
        yield _longer("status.allocation.resourceHandle", MAX_HANDLE_BYTES)
    if allocation.get("availableOnNodes") is not None:
        nodes = allocation["availableOnNodes"]
        where = "status.allocation.availableOnNodes"
        yield from selectors.node_selector_errors(nodes, where, any_value=True)


def _users(users: list[Object]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, user in enumerate(users):
        at, uid = index("status.reservedFor", position), user.get("uid") or ""
        if uid in seen:
            yield duplicate(child(at, "uid"), uid)
            continue
        seen.add(uid)
        yield from (required(child(at, name)) for name in ("resource", "name", "uid") if not user.get(name))
    if len(users) > MAX_USERS:
        yield _longer("status.reservedFor", MAX_USERS)


def _reservations(claim: Object, status: Object, before: Object) -> Iterator[FieldError]:
    users, allocation = status.get("reservedFor") or [], status.get("allocation")
    if not users:
        return
    if allocation is None:
        yield forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
        return
    if not allocation.get("shareable") and len(users) > 1:
        yield forbidden("status.reservedFor", "may not be reserved more than once")
    if claim["metadata"].get("deletionTimestamp") or status.get("deallocationRequested"):
        known = before.get("reservedFor") or []
        if any(user not in known for user in users):
            yield forbidden("status.reservedFor", _NO_NEW_USERS)


def deallocation_errors(status: Object, before: Object) -> Iterator[FieldError]:
    """Checks the request to a driver for deallocation of a claim's devices; in 1.31 too."""
    asked, was, at = status.get("deallocationRequested"), before.get("deallocationRequested"), "status"
    if asked and not was and status.get("reservedFor"):
        text = "deallocation cannot be requested while `reservedFor` is set"
        yield forbidden(child(at, "deallocationRequested"), text)
    if asked and status.get("allocation") is None:
        yield forbidden(at, "`allocation` must be set when `deallocationRequested` is set")
    if was and not asked and status.get("allocation") is not None:
        yield forbidden(child(at, "deallocationRequested"), "may not be cleared when `allocation` is set")


def scheduling_errors(spec: Object) -> Iterator[FieldError]:
    """PodSchedulingContext and PodScheduling."""
    yield from _nodes(spec.get("potentialNodes") or [], "spec.potentialNodes")


def scheduling_status_errors(status: Object) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, claim in enumerate(status.get("resourceClaims") or []):
        at, name = index("status.claims", position), claim.get("name") or ""
        yield from _nodes(claim.get("unsuitableNodes") or [], child(at, "unsuitableNodes"))
        if name in seen:
            yield duplicate(at, name)
        seen.add(name)


def _nodes(listed: list[str], path: str) -> Iterator[FieldError]:
    check: Callable[[str], list[str]] = names.dns1123_subdomain
    seen: set[str] = set()
    for position, name in enumerate(listed):
        at = index(path, position)
        if name in seen:
            yield duplicate(at, name)
        else:
            yield from (invalid(at, name, text) for text in check(name))
        seen.add(name)
    if len(listed) > MAX_NODES:
        yield _longer(path, MAX_NODES)


def _longer(path: str, most: int) -> FieldError:
    return FieldError(ErrorType.TOO_LONG, path, detail=f"may not be longer than {most}")

"""Claims of classes of drivers, 1.26 to 1.30, and their templates: validation, strategies, cells of tables.

In 1.31 claims have devices, but drivers may still allocate them.

Sources: pkg/apis/resource/validation/validation.go, 1.26 to 1.31; pkg/apis/resource/v1alpha2/defaults.go;
pkg/printers/internalversion/printers.go, 1.36.
"""

from collections.abc import Callable, Iterator
from typing import ClassVar

from kubeskew.apimachinery.field import (
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
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill, struct
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn, ReturnsDeletedObject
from kubeskew.apiserver.registry.generic.strategy import TWICE_AS_NEW, Checks, StrategyContext
from kubeskew.apiserver.registry.resource import devices
from kubeskew.apiserver.registry.resource.classic import rules
from kubeskew.apiserver.registry.resource.classic.structured_parameters import handle_errors
from kubeskew.apiserver.registry.resource.resourceclaim import strategy as structured
from kubeskew.apiserver.registry.resource.resourceclaim.strategy import DRAStatusStrategy
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.volumes.claims import template_metadata_errors
from kubeskew.apiserver.registry.tables.cells import Cells, Subject, at

MAX_USERS = 32
MAX_HANDLES = 32
MAX_HANDLE_BYTES = 16 * 1024
_MODES = ("Immediate", "WaitForFirstConsumer")
_NO_NEW_USERS = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"

HandleRule = Callable[[Object, str], Iterator[FieldError]]


def claim_errors(spec: Object, path: str) -> Iterator[FieldError]:
    name, mode = spec.get("resourceClassName") or "", spec.get("allocationMode") or ""
    yield from devices.subdomain(name, child(path, "resourceClassName"))
    yield from rules.parameters_reference_errors(spec.get("parametersRef"), child(path, "parametersRef"))
    if mode not in _MODES:
        yield not_supported(child(path, "allocationMode"), mode, _MODES)


def template_errors(spec: Object) -> Iterator[FieldError]:
    yield from template_metadata_errors(spec.get("metadata") or {}, "spec.metadata")
    yield from claim_errors(spec.get("spec") or {}, "spec.spec")


def change_errors(new: Object, old: Object) -> Iterator[FieldError]:
    if new.get("spec") != old.get("spec"):
        yield invalid("spec", new.get("spec"), IMMUTABLE)


def claim_status_errors(new: Object, old: Object, handle_rule: HandleRule) -> Iterator[FieldError]:
    status, before = new.get("status") or {}, old.get("status") or {}
    allocation = status.get("allocation")
    if status.get("driverName"):
        yield from rules.driver(status["driverName"], "status.driverName")
    elif allocation is not None:
        yield required("status.driverName", "must be specified when `allocation` is set")
    yield from _allocation(allocation or {}, handle_rule)
    if None not in (allocation, before.get("allocation")) and allocation != before["allocation"]:
        yield invalid("status.allocation", allocation, IMMUTABLE)
    yield from _users(status.get("reservedFor") or [])
    yield from _reservations(new, status, before)
    yield from deallocation_errors(status, before)


def _allocation(allocation: Object, handle_rule: HandleRule) -> Iterator[FieldError]:
    at, handles = "status.allocation.resourceHandles", allocation.get("resourceHandles") or []
    for position, handle in enumerate(handles):
        where = index(at, position)
        yield from rules.driver(handle.get("driverName") or "", child(where, "driverName"))
        if len((handle.get("data") or "").encode()) > MAX_HANDLE_BYTES:
            yield rules.too_long(child(where, "data"), MAX_HANDLE_BYTES)
        yield from handle_rule(handle, where)
    if len(handles) > MAX_HANDLES:
        yield rules.too_long(at, MAX_HANDLES)
    if len((allocation.get("resourceHandle") or "").encode()) > MAX_HANDLE_BYTES:  # 1.26
        yield rules.too_long("status.allocation.resourceHandle", MAX_HANDLE_BYTES)
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
        yield rules.too_long("status.reservedFor", MAX_USERS)


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
    """Drivers are asked to deallocate what a claim has, in 1.31 too."""
    asked, was, at = status.get("deallocationRequested"), before.get("deallocationRequested"), "status"
    if asked and not was and status.get("reservedFor"):
        text = "deallocation cannot be requested while `reservedFor` is set"
        yield forbidden(child(at, "deallocationRequested"), text)
    if asked and status.get("allocation") is None:
        yield forbidden(at, "`allocation` must be set when `deallocationRequested` is set")
    if was and not asked and status.get("allocation") is not None:
        yield forbidden(child(at, "deallocationRequested"), "may not be cleared when `allocation` is set")


def default_claim(obj: Object, _: DefaultingContext) -> None:
    fill(struct(obj, "spec"), allocationMode="WaitForFirstConsumer")


def default_template(obj: Object, _: DefaultingContext) -> None:
    fill(struct(struct(obj, "spec"), "spec"), allocationMode="WaitForFirstConsumer")


class ClaimStatusStrategy(DRAStatusStrategy):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(claim_status_errors(new, old, self.handle_errors))

    def handle_errors(self, handle: Object, path: str) -> Iterator[FieldError]:
        return handle_errors(handle, path)


class ClaimStrategy(HandwrittenBuiltIn, ReturnsDeletedObject):
    weight = structured.ClaimStrategy.weight
    status = ClaimStatusStrategy
    update_checks: ClassVar[Checks] = TWICE_AS_NEW

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(claim_errors(obj.get("spec") or {}, "spec"))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(change_errors(new, old))


class ClaimTemplateStrategy(ClaimStrategy):
    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(template_errors(obj.get("spec") or {}))


class ControllerClaimStatusStrategy(structured.ClaimStatusStrategy):
    """In 1.31 a claim with devices may be allocated by the controller of a driver."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = super().validate_update(new, old, ctx)
        if ctx.features.devices.checks_deallocation:
            errors += deallocation_errors(new.get("status") or {}, old.get("status") or {})
        return errors


class ControllerClaimStrategy(structured.ClaimStrategy):
    status = ControllerClaimStatusStrategy


def resource_claim_cells(subject: Subject) -> Cells:
    return {**_spec_cells(subject.at("spec")), "State": _state(subject, deallocates=subject.deleted)}


def controller_claim_cells(subject: Subject) -> Cells:
    return {"State": _state(subject, deallocates=False)}


def _state(subject: Subject, *, deallocates: bool) -> str:
    """`deallocates`: an allocated claim without users is given back."""
    states = structured.claim_states(subject)
    if states[-1] == "allocated" and (deallocates or subject.at("status", "deallocationRequested")):
        states.append("deallocating")
    return ",".join(states)


def resource_claim_template_cells(subject: Subject) -> Cells:
    return _spec_cells(subject.at("spec", "spec"))


def _spec_cells(spec: Object | None) -> Cells:
    return {
        "ResourceClassName": at(spec, "resourceClassName") or "",
        "AllocationMode": at(spec, "allocationMode") or "",
    }

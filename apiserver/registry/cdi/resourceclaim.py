"""ResourceClaim of cdi.k8s.io: defaults, validation of the status, strategy and cells of tables.

The phase of a new claim is a default, as that of a PersistentVolumeClaim. The draft has sentences instead of
texts of errors; these follow those of 1.26 (pkg/apis/resource/validation/validation.go), whose fields say the
same in another way. Where the draft is silent, the kind is as it shipped in 1.26.

Source: KEP-3063 as drafted, section API.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
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
from kubeskew.apiserver.object_meta import IMMUTABLE, validate_owner_references
from kubeskew.apiserver.registry.cdi.claim_templates import claim_spec_defaults, claim_spec_errors
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import (
    HandwrittenValidation,
    ReturnsDeletedObject,
    SpecKeptStatus,
    ValidatedAsNew,
)
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.formats import distinct_subdomain_errors
from kubeskew.apiserver.registry.shared.volumes.sources import csi_driver_name
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

PENDING, ALLOCATED, REALLOCATE = "Pending", "Allocated", "Reallocate"
_PHASES = (ALLOCATED, PENDING, REALLOCATE)
UNLIMITED = -1
_USER_LIMIT = "must be greater than 0, or -1 for an unlimited number of users"


def default_claim(obj: Object, _: DefaultingContext) -> None:
    claim_spec_defaults(struct(obj, "spec"))
    status = struct(obj, "status")
    fill(status, phase="Pending")
    fill_null(status, userLimit=1)


def status_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """The status is checked against the claim it is of, and against the status before."""
    status, before = new.get("status") or {}, old.get("status") or {}
    yield from _phase(status.get("phase") or "", before.get("phase") or PENDING)
    yield from _driver(status, before)
    yield from _scheduling(status.get("scheduling") or {}, "status.scheduling")
    if status.get("attributes") and status.get("phase") == PENDING:
        yield forbidden("status.attributes", "may not be specified when `phase` is Pending")
    limit = status.get("userLimit", 1)
    if limit < 1 and limit != UNLIMITED:
        yield invalid("status.userLimit", limit, _USER_LIMIT)
    yield from _users(status.get("reservedFor") or [])
    yield from _reservations(new, status, before)


def _phase(phase: str, before: str) -> Iterator[FieldError]:
    """Phases follow each other: Pending → Allocated (by the driver) → Reallocate (the scheduler) →
    Pending."""
    if phase not in _PHASES:
        yield not_supported("status.phase", phase, _PHASES)
    elif (before, phase) == (PENDING, REALLOCATE):
        yield forbidden("status.phase", "may not be Reallocate when the claim is not Allocated")
    elif (before, phase) == (REALLOCATE, ALLOCATED):
        yield forbidden("status.phase", "may only be changed to Pending when it is Reallocate")


def _driver(status: Object, before: Object) -> Iterator[FieldError]:
    """An allocated claim has and keeps its driver: the class may be gone when it is freed."""
    name, path, allocated = status.get("driverName") or "", "status.driverName", _is_allocated(status)
    if name:
        yield from csi_driver_name(name, path, required_alone=False)
    if allocated and not name:
        yield required(path, f"must be specified when `phase` is {status['phase']}")
    elif allocated and _is_allocated(before) and name != before.get("driverName"):
        yield invalid(path, name, IMMUTABLE)


def _is_allocated(status: Object) -> bool:
    return status.get("phase") in (ALLOCATED, REALLOCATE)


def _scheduling(scheduling: Object, path: str) -> Iterator[FieldError]:
    scheduler, driver = scheduling.get("scheduler") or {}, scheduling.get("driver") or {}
    at = child(path, "scheduler")
    selected = scheduler.get("selectedNode") or ""
    if selected:
        where = child(at, "selectedNode")
        yield from (invalid(where, selected, text) for text in names.dns1123_subdomain(selected))
    yield from distinct_subdomain_errors(scheduler.get("potentialNodes") or [], child(at, "potentialNodes"))
    at = child(path, "driver")
    yield from distinct_subdomain_errors(driver.get("unsuitableNodes") or [], child(at, "unsuitableNodes"))
    if driver.get("availableOnNodes") is not None:
        where = child(at, "availableOnNodes")
        yield from selectors.node_selector_errors(driver["availableOnNodes"], where, any_value=True)


def _users(users: list[Object]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, user in enumerate(users):
        at, uid = index("status.reservedFor", position), user.get("uid") or ""
        if uid in seen:
            yield duplicate(child(at, "uid"), uid)
        else:
            yield from validate_owner_references([user], at)
        seen.add(uid)


def _reservations(claim: Object, status: Object, before: Object) -> Iterator[FieldError]:
    """Only an allocated claim is used, and by no more users than the driver allows.

    Each write is checked so, and made only if the claim has not changed meanwhile: of several schedulers that
    reserve at once, as many succeed as the limit allows.
    """
    users, limit, path = status.get("reservedFor") or [], status.get("userLimit", 1), "status.reservedFor"
    if not users:
        return
    if status.get("phase") != ALLOCATED:
        yield forbidden(path, "may not be specified when `phase` is not Allocated")
        return
    if len(users) > limit > 0:
        times = "once" if limit == 1 else f"{limit} times"
        yield forbidden(path, f"may not be reserved more than {times}")
    if claim["metadata"].get("deletionTimestamp"):
        known = {user.get("uid") for user in before.get("reservedFor") or []}
        if any(user.get("uid") not in known for user in users):
            yield forbidden(path, "new entries may not be added while `deletionTimestamp` is set")


class ClaimStatusStrategy(HandwrittenValidation, SpecKeptStatus):
    """Scheduler, driver and kubelet write the status for each other."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(status_errors(new, old))


class ClaimStrategy(ValidatedAsNew, ReturnsDeletedObject):
    """The spec is set once; whether the class exists is not looked at."""

    status = ClaimStatusStrategy

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["status"] = {"phase": "Pending", "userLimit": 1}

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(claim_spec_errors(obj.get("spec") or {}, "spec"))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return [invalid("spec", new.get("spec"), IMMUTABLE)] if new.get("spec") != old.get("spec") else []


def resource_claim_cells(subject: Subject) -> Cells:
    """A claim that is deleted is Terminating, as a persistent volume is."""
    return {
        "ResourceClassName": subject.text("spec", "resourceClassName"),
        "AllocationMode": subject.text("spec", "allocationMode"),
        "Phase": "Terminating" if subject.deleted else subject.text("status", "phase"),
    }

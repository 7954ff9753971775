"""ResourcePoolStatusRequest: defaults, validation that is not declared, strategy and cells of tables.

Sources: pkg/apis/resource/validation/validation_resourcepoolstatusrequest.go,
pkg/apis/resource/v1alpha3/defaults.go, pkg/registry/resource/resourcepoolstatusrequest/strategy.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn, MetadataKeptStatus
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.conditions import condition_errors
from kubeskew.apiserver.registry.tables.cells import NONE, Cells, Subject, ago

_STATUS_REQUEST_LIMIT = 100


def default_status_request(obj: Object, _: DefaultingContext) -> None:
    fill_null(struct(obj, "spec"), limit=_STATUS_REQUEST_LIMIT)


def request_status_errors(
    status: Object | None, old: Object | None, rules: DRAFeatures
) -> Iterator[FieldError]:
    """A complete status never changes. What else its rules are is declared."""
    if old is None:
        conditions = (status or {}).get("conditions") or []
        yield from condition_errors(conditions, "status.conditions", texts=rules.condition_texts)
    elif status != old:
        shown = rules.structs.shown(status, "*resource.ResourcePoolStatusRequestStatus")
        yield invalid("status", shown, IMMUTABLE)


class StatusRequestStatus(MetadataKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        now, before = new.get("status"), old.get("status")
        return list(request_status_errors(now, before, ctx.features.devices))


class StatusRequestStrategy(HandwrittenBuiltIn):
    """The rules of the spec are declared."""

    status = StatusRequestStatus
    returns_deleted_object = True
    allow_unconditional_update = False


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

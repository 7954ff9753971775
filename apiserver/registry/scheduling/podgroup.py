"""PodGroup: defaults, validation that is not declared, strategy and cells of tables.

Sources: pkg/apis/scheduling/v1alpha3/defaults.go, pkg/apis/scheduling/validation/validation.go,
pkg/registry/scheduling/podgroup/strategy.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, child, index, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StatusStrategy, StrategyContext
from kubeskew.apiserver.registry.shared.conditions import condition_errors
from kubeskew.apiserver.registry.tables.cells import NONE, Cells, Subject


def default_pod_group_mode_name(obj: Object, _: DefaultingContext) -> None:
    fill_null(struct(obj, "spec"), disruptionMode="Pod")


def default_pod_group_mode(obj: Object, _: DefaultingContext) -> None:
    fill_null(struct(obj, "spec"), disruptionMode={"single": {}})


def group_status_errors(group: Object) -> Iterator[FieldError]:
    """The rules of a status that are not declared."""
    status = group.get("status") or {}
    yield from condition_errors(status.get("conditions") or [], "status.conditions")
    known = {claim.get("name") for claim in (group.get("spec") or {}).get("resourceClaims") or ()}
    for position, claim in enumerate(status.get("resourceClaimStatuses") or ()):
        name = claim.get("name") or ""
        if name not in known:
            at = child(index("status.resourceClaimStatuses", position), "name")
            yield invalid(at, name, "must match the name of an entry in `spec.resourceClaims`")


class PodGroupStatus(StatusStrategy):
    """Nobody comes to own metadata with the status."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(group_status_errors(new))

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("metadata",), ("spec",))


class PodGroupStrategy(HandwrittenBuiltIn):
    """All rules of the spec are declared."""

    status = PodGroupStatus


def pod_group_cells(subject: Subject) -> Cells:
    return {
        "Policy": "Basic" if subject.at("spec", "schedulingPolicy", "gang") is None else "Gang",
        # 1.36 names the workload inside the reference to the template
        "Workload": subject.text("spec", "workloadRef", "workloadName")
        or subject.text("spec", "podGroupTemplateRef", "workload", "workloadName", default=NONE),
        "Status": _group_state(subject),
    }


def _group_state(subject: Subject) -> str:
    disrupted = subject.condition("DisruptionTarget")
    if disrupted is not None:
        return str(disrupted.get("reason", ""))
    scheduled = subject.condition("PodGroupInitiallyScheduled") or subject.condition("PodGroupScheduled")
    if scheduled is None:
        return "Pending"
    return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"

"""PodGroup: defaults, validation, strategy and cells of tables.

Sources: pkg/apis/scheduling/v1alpha3/defaults.go, pkg/apis/scheduling/validation/validation.go and the
markers of k8s.io/api/scheduling/v1alpha2, pkg/registry/scheduling/podgroup/strategy.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, child, index, invalid, too_many
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.defaulting import DefaultingContext, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StatusStrategy, StrategyContext
from kubeskew.apiserver.registry.scheduling import policies
from kubeskew.apiserver.registry.shared import declared
from kubeskew.apiserver.registry.shared.conditions import condition_errors
from kubeskew.apiserver.registry.tables.cells import NONE, Cells, Subject

_UNCHANGING = (
    "podGroupTemplateRef", "schedulingPolicy", "schedulingConstraints", "resourceClaims", "disruptionMode",
    "priorityClassName", "priority",
)  # fmt: skip
_NO_CLAIM = "must match the name of an entry in `spec.resourceClaims`"


def default_pod_group_mode_name(obj: Object, _: DefaultingContext) -> None:
    fill_null(struct(obj, "spec"), disruptionMode="Pod")


def default_pod_group_mode(obj: Object, _: DefaultingContext) -> None:
    fill_null(struct(obj, "spec"), disruptionMode={"single": {}})


def group_errors(spec: Object) -> Iterator[FieldError]:
    reference, at = spec.get("podGroupTemplateRef"), "spec.podGroupTemplateRef"
    if reference is not None and reference.get("workload") is None:
        yield invalid(at, "", "must specify one of: `workload`")
    elif reference is not None:
        workload, at = reference["workload"], child(at, "workload")
        yield from declared.needed(workload, "workloadName", at, declared.long_name)
        yield from declared.needed(workload, "podGroupTemplateName", at, declared.short_name)
    yield from policies.group_errors(spec, "spec")


def group_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    after, before = (group.get("spec") or {} for group in (new, old))
    for name in _UNCHANGING:
        if (after.get(name) or None) != (before.get(name) or None):
            yield invalid(child("spec", name), None, IMMUTABLE)
            if name == "resourceClaims" and len(after.get(name) or ()) > policies.MAX_CLAIMS:
                yield too_many(child("spec", name), len(after[name]), policies.MAX_CLAIMS)


def group_status_errors(new: Object, old: Object) -> Iterator[FieldError]:
    status, before = new.get("status") or {}, old.get("status") or {}
    yield from condition_errors(status.get("conditions") or [], "status.conditions")
    claims, path = status.get("resourceClaimStatuses") or [], "status.resourceClaimStatuses"
    known = {claim.get("name") for claim in (new.get("spec") or {}).get("resourceClaims") or ()}
    for position, claim in enumerate(claims):
        name = claim.get("name") or ""
        if name not in known:
            yield invalid(child(index(path, position), "name"), name, _NO_CLAIM)
    if claims == (before.get("resourceClaimStatuses") or []):
        return
    if len(claims) > policies.MAX_CLAIMS:
        yield too_many(path, len(claims), policies.MAX_CLAIMS)
        return
    yield from policies.repeats(claims, path, {"name": "", "resourceClaimName": None})
    for position, claim in enumerate(claims):
        if claim.get("resourceClaimName") is not None:
            at = child(index(path, position), "resourceClaimName")
            yield from declared.long_name(claim["resourceClaimName"], at)


class PodGroupStatus(StatusStrategy):
    """Nobody comes to own metadata with the status."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(group_status_errors(new, old))

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("metadata",), ("spec",))


class PodGroupStrategy(HandwrittenBuiltIn):
    status = PodGroupStatus

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(group_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(group_update_errors(new, old))


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

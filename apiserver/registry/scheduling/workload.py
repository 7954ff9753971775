"""Workload: validation, which is declared with the types since 1.36, and strategy.

Sources: the markers of k8s.io/api/scheduling/v1alpha2, 1.36; pkg/apis/scheduling/validation/validation.go,
1.35; pkg/registry/scheduling/workload/strategy.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, child, duplicate, index, invalid, required, too_many
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.references import segment_errors

_MAX_GROUPS = 8
_ONE_OF = "exactly one of `basic`, `gang` is required"


def group_workload_errors(spec: Object) -> Iterator[FieldError]:
    """Workloads of 1.35 have their groups themselves."""
    reference, path = spec.get("controllerRef"), "spec.podGroups"
    if reference is not None:
        group, at = reference.get("apiGroup") or "", "spec.controllerRef.apiGroup"
        yield from (invalid(at, group, text) for text in names.dns1123_subdomain(group) if group)
        yield from segment_errors(reference, "spec.controllerRef", "kind", "name")
    groups = spec.get("podGroups") or []
    if not groups:
        yield required(path, "must have at least one item")
    elif len(groups) > _MAX_GROUPS:
        yield too_many(path, len(groups), _MAX_GROUPS)
    else:
        seen: set[str] = set()
        for position, item in enumerate(groups):
            yield from _group(item, index(path, position), seen)


def _group(group: Object, path: str, seen: set[str]) -> Iterator[FieldError]:
    name, at = group.get("name") or "", child(path, "name")
    yield from (invalid(at, name, text) for text in names.dns1123_label(name))
    if name in seen:
        yield duplicate(at, name)
    seen.add(name)
    policy, at = group.get("policy") or {}, child(path, "policy")
    given = [f"`{kind}`" for kind in ("basic", "gang") if policy.get(kind) is not None]
    if not given:
        yield required(at, _ONE_OF)
    elif len(given) > 1:
        yield invalid(at, f"{{{', '.join(given)}}}", f"{_ONE_OF}, but multiple fields are set")
    elif policy.get("gang") is not None and (policy["gang"].get("minCount") or 0) <= 0:
        count = policy["gang"].get("minCount") or 0
        yield invalid(child(at, "gang.minCount"), count, "must be greater than zero")


def group_workload_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    """Errors of a change in 1.35 are at paths without the spec."""
    after, before = (workload.get("spec") or {} for workload in (new, old))
    yield from group_workload_errors(after)
    reference = after.get("controllerRef")
    if before.get("controllerRef") is not None and reference != before["controllerRef"]:
        yield invalid("controllerRef", _shown_reference(reference), IMMUTABLE)
    groups = after.get("podGroups")
    if groups != before.get("podGroups"):
        shown = [{"Name": one.get("name") or "", "Policy": _shown_policy(one)} for one in groups or ()]
        yield invalid("podGroups", shown or None, IMMUTABLE)


def _shown_reference(reference: Object | None) -> Object | None:
    if reference is None:
        return None
    names_ = {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"}
    return {shown: reference.get(name) or "" for shown, name in names_.items()}


def _shown_policy(group: Object) -> Object:
    policy = group.get("policy") or {}
    gang = policy.get("gang")
    shown = None if gang is None else {"MinCount": gang.get("minCount") or 0}
    return {"Basic": policy.get("basic"), "Gang": shown}


class WorkloadStrategy(HandwrittenBuiltIn):
    """Workloads have their groups themselves in 1.35; later templates of them, whose rules are declared."""

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return names.dns1123_subdomain(name, prefix)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        if ctx.features.workloads.groups_of_workloads:
            return list(group_workload_errors(obj.get("spec") or {}))
        return []

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        if ctx.features.workloads.groups_of_workloads:
            return list(group_workload_update_errors(new, old))
        return []

"""resource.k8s.io. Source: pkg/registry/resource/*/strategy.go, 1.36.

Rules are written for the shape of v1; where the hub is an older version a copy is brought to it first.
"""

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

from apimachinery.conversion.converting import CONVERTERS
from apimachinery.errors import GroupResource, Object
from apimachinery.field import FieldError, invalid
from apimachinery.resources import GroupVersionKind
from apimachinery.validation.object_meta import IMMUTABLE
from apiserver.registry.strategies.shared import BuiltIn, SpecKeptStatus
from apiserver.registry.strategy import StatusStrategy, Strategy, StrategyContext
from apiserver.registry.validation import claim_status, device_classes, slices
from apiserver.registry.validation.claim_access import claim_access_errors
from apiserver.registry.validation.claims import ClaimRules, admin_access_errors, claim_spec_errors

_GROUP = "resource.k8s.io"
_CLASSIC = frozenset({"v1alpha1", "v1alpha2"})  # other objects under the same names: no rules here yet


def as_v1(obj: Object, ctx: StrategyContext) -> Object:
    """The object in the shape of v1: a copy, unless the hub has that shape."""
    hub = GroupVersionKind(_GROUP, ctx.resource.version, ctx.resource.kind)
    if hub not in CONVERTERS:
        return obj
    widened = copy.deepcopy(obj)
    CONVERTERS[hub][0](widened)
    return widened


def rules_of(ctx: StrategyContext) -> ClaimRules:
    return ClaimRules(
        ctx.version.minor,
        ctx.gates.enabled("DRAConsumableCapacity"),
        ctx.gates.enabled("DRAListTypeAttributes"),
    )


def admin_label(ctx: StrategyContext) -> str:
    domain = "resource.kubernetes.io" if ctx.version.minor >= 34 else "resource.k8s.io"
    return f"{domain}/admin-access"


def may_administer(obj: Object, ctx: StrategyContext) -> bool:
    """Whether the claim's namespace carries the label (checked from 1.33 on)."""
    if ctx.version.minor < 33:
        return True
    namespace = ctx.get_entry("namespaces", "", obj["metadata"].get("namespace") or "") or {}
    labels = (namespace.get("metadata") or {}).get("labels") or {}
    return bool(labels.get(admin_label(ctx)) == "true")


def _is_classic(ctx: StrategyContext) -> bool:
    return ctx.resource.version in _CLASSIC


class ClaimStatusStrategy(StatusStrategy):
    """The spec stays; the status of devices that were given back goes."""

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        claim_status.drop_deallocated(new, old)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        if _is_classic(ctx):
            return []
        claim = as_v1(new, ctx)
        errors = claim_status.claim_status_errors(claim, old, ctx.version.minor)
        if not may_administer(new, ctx):
            errors += claim_status.admin_results_errors(new, old, admin_label(ctx))
        if ctx.gates.enabled("DRAResourceClaimGranularStatusAuthorization"):
            errors += claim_access_errors(claim, as_v1(old, ctx), ctx)
        return errors


class ClaimStrategy(BuiltIn):
    """A claim's spec never changes."""

    status = ClaimStatusStrategy
    returns_deleted_object = True
    _spec: ClassVar[tuple[str, ...]] = ("spec",)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(obj, ctx, stored=False)

    def _errors(self, obj: Object, ctx: StrategyContext, *, stored: bool) -> list[FieldError]:
        if _is_classic(ctx):
            return []
        spec: Any = as_v1(obj, ctx)
        for name in self._spec:
            spec = spec.get(name) or {}
        path, rules = ".".join(self._spec), rules_of(ctx)
        errors: list[FieldError] = []
        if not stored and not may_administer(obj, ctx):
            errors += admin_access_errors(spec, path, rules, admin_label(ctx))
        return errors + claim_spec_errors(spec, path, rules, stored=stored)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = []
        if new.get("spec") != old.get("spec"):
            errors.append(invalid("spec", new.get("spec"), IMMUTABLE))
        return [*errors, *self._errors(new, ctx, stored=True)]


class ClaimTemplateStrategy(ClaimStrategy):
    _spec = ("spec", "spec")


class DeviceClassStrategy(BuiltIn):
    returns_deleted_object = True

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return device_classes.class_errors(obj.get("spec") or {}, None, rules_of(ctx))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return device_classes.class_errors(new.get("spec") or {}, old.get("spec") or {}, rules_of(ctx))


class SliceStrategy(BuiltIn):
    returns_deleted_object = True
    field_labels = ("spec.nodeName", "spec.driver", "spec.pool.name")

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return not _is_classic(ctx)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        if _is_classic(ctx):
            return []
        return slices.slice_errors(as_v1(obj, ctx).get("spec") or {}, None, ctx.version.minor)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        if _is_classic(ctx):
            return []
        now, before = (as_v1(obj, ctx).get("spec") or {} for obj in (new, old))
        return slices.slice_errors(now, before, ctx.version.minor)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        """1.36: a taint whose effect changes gets a new time, unless the writer gave one."""
        super().prepare_for_update(new, old, ctx)
        if ctx.version.minor >= 36:
            device_classes.bump_taint_times(new, old, ctx.now)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return slices.warnings(obj.get("spec") or {})

    def fields(self, obj: Object) -> Mapping[str, str]:
        found = dict(super().fields(obj))
        if "nodeName" in obj:  # v1alpha2 has no spec
            found["nodeName"], found["driverName"] = obj["nodeName"], obj.get("driverName") or ""
        return found


class TaintRuleStatus(SpecKeptStatus):
    """Only the status changes."""


class TaintRuleStrategy(BuiltIn):
    status = TaintRuleStatus

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return device_classes.taint_rule_errors(obj.get("spec") or {}, ctx.version.minor)


class StatusRequestStrategy(BuiltIn):
    """A ResourcePoolStatusRequest's spec never changes."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        if new.get("spec") != old.get("spec"):
            return [invalid("spec", new.get("spec"), IMMUTABLE)]
        return []


class SchedulingContextStrategy(BuiltIn):
    """Classic DRA: PodSchedulingContext, PodScheduling."""

    returns_deleted_object = True


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource(_GROUP, "resourceclaims"): ClaimStrategy,
    GroupResource(_GROUP, "resourceclaimtemplates"): ClaimTemplateStrategy,
    GroupResource(_GROUP, "deviceclasses"): DeviceClassStrategy,
    GroupResource(_GROUP, "resourceslices"): SliceStrategy,
    GroupResource(_GROUP, "devicetaintrules"): TaintRuleStrategy,
    GroupResource(_GROUP, "resourcepoolstatusrequests"): StatusRequestStrategy,
    GroupResource(_GROUP, "podschedulingcontexts"): SchedulingContextStrategy,
    GroupResource(_GROUP, "podschedulings"): SchedulingContextStrategy,
}

"""resource.k8s.io. Source: pkg/registry/resource/*/strategy.go, 1.31 to 1.37.

Rules are written for the shape of v1; where the hub is an older version a copy is brought to it first.
"""

import copy
from typing import Any, ClassVar

from kubeskew.apimachinery.conversion.converting import CONVERTERS
from kubeskew.apimachinery.errors import GroupResource, Object
from kubeskew.apimachinery.field import FieldError, invalid
from kubeskew.apimachinery.resources import GroupVersionKind
from kubeskew.apimachinery.validation.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.generic.disabled_fields import drop_disabled
from kubeskew.apiserver.registry.strategies.classic_resources import (
    ResourceClassStrategy,
    SchedulingContextStrategy,
)
from kubeskew.apiserver.registry.strategies.shared import BuiltIn
from kubeskew.apiserver.registry.strategy import StatusStrategy, Strategy, StrategyContext
from kubeskew.apiserver.registry.validation import (
    claim_status,
    classic_claims,
    device_classes,
    pool_status_requests,
    slices,
)
from kubeskew.apiserver.registry.validation.claim_access import claim_access_errors
from kubeskew.apiserver.registry.validation.claims import admin_access_errors, claim_spec_errors
from kubeskew.apiserver.registry.validation.device_rules import DeviceRules
from kubeskew.apiserver.registry.validation.template_metadata import template_metadata_errors

_GROUP = "resource.k8s.io"
_CLASSIC = frozenset({"v1alpha1", "v1alpha2"})  # other objects under the same names


def as_v1(obj: Object, ctx: StrategyContext) -> Object:
    """The object in the shape of v1: a copy, unless the hub has that shape."""
    hub = GroupVersionKind(_GROUP, ctx.resource.version, ctx.resource.kind)
    if hub not in CONVERTERS:
        return obj
    widened = copy.deepcopy(obj)
    CONVERTERS[hub][0](widened)
    return widened


def rules_of(ctx: StrategyContext) -> DeviceRules:
    return DeviceRules(
        ctx.version.minor,
        consumable_capacity=ctx.gates.enabled("DRAConsumableCapacity"),
        list_attributes=ctx.gates.enabled("DRAListTypeAttributes"),
        fractional_capacity=ctx.gates.enabled("DRAFractionalCapacityRange"),
        partition_types=ctx.gates.enabled("DRAPartitionableDevicesType"),
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
        if not _is_classic(ctx):
            claim_status.drop_deallocated(new, old)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        if _is_classic(ctx):
            return list(classic_claims.claim_status_errors(new, old))
        claim = as_v1(new, ctx)
        errors: list[FieldError] = []
        if not may_administer(new, ctx):
            errors += claim_status.admin_results_errors(new, old, admin_label(ctx))
        if ctx.gates.enabled("DRAResourceClaimGranularStatusAuthorization"):
            errors += claim_access_errors(claim, as_v1(old, ctx), ctx)
        errors += claim_status.claim_status_errors(claim, old, rules_of(ctx))
        if ctx.version.minor == 31:
            status, before = new.get("status") or {}, old.get("status") or {}
            errors += classic_claims.deallocation_errors(status, before)
        return errors


class ClaimStrategy(BuiltIn):
    """A claim's spec never changes."""

    weight = 16  # selectors: a millisecond each
    status = ClaimStatusStrategy
    returns_deleted_object = True
    _spec: ClassVar[tuple[str, ...]] = ("spec",)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        if _is_classic(ctx):
            return self._classic_errors(obj)
        errors: list[FieldError] = []
        if not may_administer(obj, ctx):
            errors += admin_access_errors(self._claim_spec(obj, ctx), admin_label(ctx))
        return errors + self._errors(obj, ctx, stored=False)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        changed = [invalid("spec", new.get("spec"), IMMUTABLE)] if new.get("spec") != old.get("spec") else []
        if _is_classic(ctx):
            return [*changed, *self._classic_errors(new)]
        if not rules_of(ctx).checks_stored:
            return changed
        # Until 1.34 the object is checked as a new one, and then once more as one that was stored.
        return [*self._errors(new, ctx, stored=False), *changed, *self._errors(new, ctx, stored=True)]

    def _claim_spec(self, obj: Object, ctx: StrategyContext) -> Object:
        spec: Any = as_v1(obj, ctx)
        for name in self._spec:
            spec = spec.get(name) or {}
        return dict(spec)

    def _errors(self, obj: Object, ctx: StrategyContext, *, stored: bool) -> list[FieldError]:
        return claim_spec_errors(
            self._claim_spec(obj, ctx), ".".join(self._spec), rules_of(ctx), stored=stored
        )

    def _classic_errors(self, obj: Object) -> list[FieldError]:
        return list(classic_claims.claim_errors(obj.get("spec") or {}, "spec"))


class ClaimTemplateStrategy(ClaimStrategy):
    _spec = ("spec", "spec")

    def _errors(self, obj: Object, ctx: StrategyContext, *, stored: bool) -> list[FieldError]:
        metadata = (obj.get("spec") or {}).get("metadata") or {}
        errors = list(template_metadata_errors(metadata, "spec.metadata"))
        return errors + super()._errors(obj, ctx, stored=stored)

    def _classic_errors(self, obj: Object) -> list[FieldError]:
        return list(classic_claims.template_errors(obj.get("spec") or {}))


class DeviceClassStrategy(BuiltIn):
    weight = 16
    returns_deleted_object = True

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        """Disabled fields go before the generation is counted."""
        super().prepare_for_update(new, old, ctx)
        drop_disabled(new, old, ctx.resource.schema, ctx.gates)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return device_classes.class_errors(obj.get("spec") or {}, None, rules_of(ctx))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        rules, now, before = rules_of(ctx), new.get("spec") or {}, old.get("spec") or {}
        errors = device_classes.class_errors(now, None, rules) if rules.checks_stored else []
        return errors + device_classes.class_errors(now, before, rules)


class SliceStrategy(BuiltIn):
    returns_deleted_object = True
    field_labels = ("spec.nodeName", "spec.driver", "spec.pool.name")

    def labels_in(self, group: str, minor: int) -> tuple[str, ...]:
        """The pool's name since 1.37; without a spec other names."""
        if minor <= 30:
            return ("nodeName", "driverName")
        return self.field_labels if minor >= 37 else self.field_labels[:2]

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return not _is_classic(ctx)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(obj, None, ctx)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(new, old, ctx)

    def _errors(self, obj: Object, old: Object | None, ctx: StrategyContext) -> list[FieldError]:
        if _is_classic(ctx):
            return []
        before = None if old is None else as_v1(old, ctx).get("spec") or {}
        rules, bare = rules_of(ctx), []
        if rules.wrapper:
            listed = (obj.get("spec") or {}).get("devices") or []
            bare = [place for place, device in enumerate(listed) if device.get("basic") is None]
        return slices.slice_errors(as_v1(obj, ctx).get("spec") or {}, before, rules, bare)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return [] if ctx.version.minor < 34 else slices.warnings(obj.get("spec") or {})

    def fields(self, obj: Object) -> dict[str, str]:
        found = super().fields(obj)
        if "nodeName" in obj:  # v1alpha2 has no spec
            found["nodeName"], found["driverName"] = obj["nodeName"], obj.get("driverName") or ""
        return found


class MetadataKeptStatus(StatusStrategy):
    """Who applies a status comes to own nothing else."""

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("metadata",), ("spec",))


class TaintRuleStatus(MetadataKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(device_classes.taint_rule_status_errors(new.get("status") or {}))


class TaintRuleStrategy(BuiltIn):
    status = TaintRuleStatus

    def takes_unconditional_update(self, version: str) -> bool:
        return version != "v1"  # upstream found out late

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        if ctx.version.minor >= 36:
            device_classes.bump_rule_time(new, old, ctx.now)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return device_classes.taint_rule_errors(obj.get("spec") or {}, None, rules_of(ctx))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        now, before = new.get("spec") or {}, old.get("spec") or {}
        return device_classes.taint_rule_errors(now, before, rules_of(ctx))


class StatusRequestStatus(MetadataKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        now, before = new.get("status"), old.get("status")
        return list(pool_status_requests.request_status_errors(now, before, rules_of(ctx)))


class StatusRequestStrategy(BuiltIn):
    """A ResourcePoolStatusRequest's spec never changes."""

    status = StatusRequestStatus
    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(pool_status_requests.request_errors(obj.get("spec") or {}, rules_of(ctx)))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        if new.get("spec") != old.get("spec"):
            return [invalid("spec", new.get("spec"), IMMUTABLE)]
        return []


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource(_GROUP, "resourceclaims"): ClaimStrategy,
    GroupResource(_GROUP, "resourceclaimtemplates"): ClaimTemplateStrategy,
    GroupResource(_GROUP, "deviceclasses"): DeviceClassStrategy,
    GroupResource(_GROUP, "resourceslices"): SliceStrategy,
    GroupResource(_GROUP, "devicetaintrules"): TaintRuleStrategy,
    GroupResource(_GROUP, "resourcepoolstatusrequests"): StatusRequestStrategy,
    GroupResource(_GROUP, "resourceclasses"): ResourceClassStrategy,
    GroupResource(_GROUP, "podschedulingcontexts"): SchedulingContextStrategy,
    GroupResource(_GROUP, "podschedulings"): SchedulingContextStrategy,
}

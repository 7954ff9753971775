"""Decides how DeviceTaintRules are written.

Source: pkg/registry/resource/devicetaintrule/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import BuiltIn, MetadataKeptStatus
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.resource.devicetaintrule import validation as devicetaintrule_validation


class TaintRuleStatus(MetadataKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        status, rules = new.get("status") or {}, ctx.features.devices
        return list(devicetaintrule_validation.taint_rule_status_errors(status, rules))


class TaintRuleStrategy(BuiltIn):
    status = TaintRuleStatus
    returns_deleted_object = True

    def takes_unconditional_update(self, version: str) -> bool:
        return version != "v1"  # upstream found out late

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        if ctx.features.devices.rule_times:
            devicetaintrule_validation.bump_rule_time(new, old, ctx.now)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return devicetaintrule_validation.taint_rule_errors(obj.get("spec") or {}, None, ctx.features.devices)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        now, before = new.get("spec") or {}, old.get("spec") or {}
        return devicetaintrule_validation.taint_rule_errors(now, before, ctx.features.devices)

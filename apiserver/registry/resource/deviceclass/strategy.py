"""Decides how DeviceClasses are written.

Source: pkg/registry/resource/deviceclass/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver import object_meta
from kubeskew.apiserver.registry.generic.builtin import BuiltIn
from kubeskew.apiserver.registry.generic.check_order import UPDATE, UPDATE_AS_NEW, Check, Checks
from kubeskew.apiserver.registry.generic.disabled_fields import drop_disabled
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.resource.deviceclass import validation as deviceclass_validation
from kubeskew.apiserver.registry.shared.declared import long_name_texts


class DeviceClassStrategy(BuiltIn):
    weight = 16
    returns_deleted_object = True

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True

    def metadata_errors(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        """Returns the errors of the metadata; since 1.35 the name is one of the declared formats."""
        check = long_name_texts if ctx.features.devices.declarative_validation else self.name_check
        return object_meta.validate_object_meta(obj["metadata"], False, check, core=self.core_metadata)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        """Disabled fields go before the generation is counted."""
        super().prepare_for_update(new, old, ctx)
        drop_disabled(new, old, ctx.resource.schema, ctx.gates)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return deviceclass_validation.class_errors(obj.get("spec") or {}, None, ctx.features.devices)

    def update_checks_for(self, ctx: StrategyContext) -> Checks:
        """Returns the checks: the metadata are looked at as a new object's, too."""
        return (
            Check.METADATA,
            *(UPDATE_AS_NEW if ctx.features.devices.revalidates_on_update else UPDATE),
        )

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        rules, now, before = ctx.features.devices, new.get("spec") or {}, old.get("spec") or {}
        return deviceclass_validation.class_errors(now, before, rules)

"""DeviceClass: validation and strategy.

Sources: pkg/apis/resource/validation/validation.go, pkg/registry/resource/deviceclass/strategy.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_extended_resource
from kubeskew.apiserver import object_meta
from kubeskew.apiserver.dra_features import DRAFeatures
from kubeskew.apiserver.registry.declarative.formats import long_name_texts
from kubeskew.apiserver.registry.generic.builtin import BuiltIn
from kubeskew.apiserver.registry.generic.disabled_fields import drop_disabled
from kubeskew.apiserver.registry.generic.strategy import UPDATE, UPDATE_AS_NEW, Check, Checks, StrategyContext
from kubeskew.apiserver.registry.resource import devices
from kubeskew.apiserver.registry.shared import selectors


def class_errors(spec: Object, old: Object | None, rules: DRAFeatures) -> list[FieldError]:
    """Selectors and configurations that did not change count as stored."""
    same_selectors = old is not None and old.get("selectors") == spec.get("selectors")
    same_config = old is not None and old.get("config") == spec.get("config")

    def config(item: Object, at: str) -> Iterator[FieldError]:
        yield from devices.opaque(item, at, rules, stored=same_config)

    errors = list(devices.selectors(spec.get("selectors"), "spec.selectors", rules, stored=same_selectors))
    errors += devices.each(spec.get("config"), devices.MAX_CONFIGS, config, "spec.config", rules)
    if spec.get("suitableNodes") is not None:  # 1.31
        nodes, any_value = spec["suitableNodes"], rules.any_label_values
        errors += selectors.node_selector_errors(nodes, "spec.suitableNodes", any_value=any_value)
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended_resource(name):
        errors.append(invalid("spec.extendedResourceName", name, "must be a valid extended resource name"))
    return errors


class DeviceClassStrategy(BuiltIn):
    weight = 16
    returns_deleted_object = True

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True

    def metadata_errors(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        """Since 1.35 the name is one of the declared formats."""
        check = long_name_texts if ctx.features.devices.declarative_validation else self.name_check
        return object_meta.validate_object_meta(obj["metadata"], False, check, core=self.core_metadata)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        """Disabled fields go before the generation is counted."""
        super().prepare_for_update(new, old, ctx)
        drop_disabled(new, old, ctx.resource.schema, ctx.gates)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return class_errors(obj.get("spec") or {}, None, ctx.features.devices)

    def update_checks_for(self, ctx: StrategyContext) -> Checks:
        """Metadata is checked as a new object's, too."""
        return (
            Check.METADATA,
            *(UPDATE_AS_NEW if ctx.features.devices.revalidates_on_update else UPDATE),
        )

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        rules, now, before = ctx.features.devices, new.get("spec") or {}, old.get("spec") or {}
        return class_errors(now, before, rules)

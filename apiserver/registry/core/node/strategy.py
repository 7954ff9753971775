"""Decides how Nodes are written.

Source: pkg/registry/core/node/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.core.node import validation as node_validation
from kubeskew.apiserver.registry.generic.builtin import BuiltIn, SpecKeptStatus
from kubeskew.apiserver.registry.generic.check_order import UPDATE_AS_NEW, Check
from kubeskew.apiserver.registry.generic.strategy import StrategyContext, show

_NODE_WARNINGS = {
    "configSource": "spec.configSource: the feature is no longer supported",
    "externalID": "spec.externalID: this field is deprecated, and is unused by Kubernetes",
}


class NodeStatus(SpecKeptStatus):
    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        if (old.get("status") or {}).get("config") is None:
            (new.get("status") or {}).pop("config", None)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return node_validation.node_update_errors(new, old)


class NodeStrategy(BuiltIn):
    status = NodeStatus
    update_checks = (Check.METADATA, *UPDATE_AS_NEW)
    field_labels = ("spec.unschedulable",)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        node_validation.complete_cidrs(obj.setdefault("spec", {}))
        obj["spec"].pop("configSource", None)  # of dynamic configuration, which went in 1.26
        (obj.get("status") or {}).pop("config", None)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        node_validation.complete_cidrs(new.setdefault("spec", {}), old.get("spec") or {})
        if (old.get("spec") or {}).get("configSource") is None:
            new["spec"].pop("configSource", None)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        unique = ctx.features.services.repeated_ranges
        return node_validation.node_errors(obj, strict=ctx.features.strict_addresses, unique=unique)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return node_validation.node_update_errors(new, old)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        spec = obj.get("spec") or {}
        return [text for name, text in _NODE_WARNINGS.items() if spec.get(name)]

    def fields(self, obj: Object) -> dict[str, str]:
        found = super().fields(obj)
        found["spec.unschedulable"] = show(bool((obj.get("spec") or {}).get("unschedulable")))
        return found

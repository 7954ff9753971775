"""Decides how FlowSchemas are written.

Source: pkg/registry/flowcontrol/flowschema/strategy.go, 1.36.
"""

from typing import ClassVar

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.flowcontrol.flowschema.validation import flow_schema_errors
from kubeskew.apiserver.registry.flowcontrol.prioritylevelconfiguration.strategy import set_dangling_condition
from kubeskew.apiserver.registry.flowcontrol.status import ConditionsOnly
from kubeskew.apiserver.registry.generic.builtin import WithGeneration
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext


class FlowSchemaStrategy(WithGeneration):
    """FlowSchema."""

    status: ClassVar[type[Strategy]] = ConditionsOnly
    update_checks = (Check.METADATA, Check.STRUCTURE, Check.CHANGE)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        set_dangling_condition(obj, ctx)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        if new.get("spec") != old.get("spec"):
            set_dangling_condition(new, ctx)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(flow_schema_errors(obj))

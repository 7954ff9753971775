"""Decides how PriorityLevelConfigurations are written.

Source: pkg/registry/flowcontrol/prioritylevelconfiguration/strategy.go, 1.36.
"""

from typing import ClassVar

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.flowcontrol.prioritylevelconfiguration.validation import (
    priority_level_errors,
)
from kubeskew.apiserver.registry.flowcontrol.status import ConditionsOnly
from kubeskew.apiserver.registry.generic.builtin import WithGeneration
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext

_GROUP = "flowcontrol.apiserver.k8s.io"


class PriorityLevelStrategy(WithGeneration):
    """PriorityLevelConfiguration."""

    status: ClassVar[type[Strategy]] = ConditionsOnly
    update_checks = (Check.METADATA, Check.STRUCTURE, Check.CHANGE)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(priority_level_errors(obj, ctx.features.requests))


def set_dangling_condition(obj: Object, ctx: StrategyContext) -> None:
    """The condition Dangling: whether the priority level is missing."""
    name = ((obj.get("spec") or {}).get("priorityLevelConfiguration") or {}).get("name") or ""
    found = ctx.get_entry(f"prioritylevelconfigurations.{_GROUP}", "", name) is not None
    named = f'This FlowSchema references the PriorityLevelConfiguration object named "{name}"'
    condition = {
        "type": "Dangling",
        "status": "False" if found else "True",
        "lastTransitionTime": timestamp(ctx.now),
        "reason": "Found" if found else "NotFound",
        "message": f"{named} and it exists" if found else f"{named} but there is no such object",
    }
    obj["status"] = {"conditions": [condition]}

"""Flow schemas and priority levels.

Source: k8s.io/kubernetes/pkg/registry/flowcontrol/*/strategy.go, 1.36. That a schema's level is there is
noted with the write itself; upstream's controller does it a moment later.
"""

from typing import ClassVar

from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.errors import GroupResource, Object
from kubeskew.apimachinery.field import FieldError
from kubeskew.apiserver.registry.strategies.checked import OwnRules
from kubeskew.apiserver.registry.strategies.shared import Counted
from kubeskew.apiserver.registry.strategy import StatusStrategy, Strategy, StrategyContext
from kubeskew.apiserver.registry.validation.flow_control import (
    flow_schema_errors,
    priority_level_errors,
    status_errors,
)
from kubeskew.apiserver.storage.encoding import copied

_GROUP = "flowcontrol.apiserver.k8s.io"


class ConditionsOnly(OwnRules, StatusStrategy):
    """All of the metadata stays as it was, whatever is sent."""

    asks_of_changes = False

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        sent = new["metadata"]
        held = {name: sent[name] for name in ("managedFields", "resourceVersion") if name in sent}
        new["metadata"] = {**copied(old["metadata"]), **held}

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(status_errors(new.get("status") or {}))

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("metadata",), ("spec",))


class FlowSchemaStrategy(Counted):
    """FlowSchema."""

    status: ClassVar[type[Strategy]] = ConditionsOnly
    asks_of_changes = False
    asks_as_new = 1

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        _note_level(obj, ctx)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        if new.get("spec") != old.get("spec"):
            _note_level(new, ctx)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(flow_schema_errors(obj))


class PriorityLevelStrategy(Counted):
    """PriorityLevelConfiguration."""

    status: ClassVar[type[Strategy]] = ConditionsOnly
    asks_of_changes = False
    asks_as_new = 1

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(priority_level_errors(obj))


def _note_level(obj: Object, ctx: StrategyContext) -> None:
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


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource(_GROUP, "flowschemas"): FlowSchemaStrategy,
    GroupResource(_GROUP, "prioritylevelconfigurations"): PriorityLevelStrategy,
}

"""PodSchedulingContext (in 1.26 PodScheduling): validation, strategies and cells of tables.

Source: pkg/apis/resource/validation/validation.go, 1.26 to 1.31.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, child, duplicate, index
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.resource.classic.rules import node_list_errors
from kubeskew.apiserver.registry.resource.classic.strategy import Mutable
from kubeskew.apiserver.registry.resource.resourceclaim.strategy import DRAStatusStrategy
from kubeskew.apiserver.registry.tables.cells import Cells, Subject


def scheduling_errors(spec: Object) -> Iterator[FieldError]:
    yield from node_list_errors(spec.get("potentialNodes") or [], "spec.potentialNodes")


def scheduling_status_errors(status: Object) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, claim in enumerate(status.get("resourceClaims") or []):
        at, name = index("status.claims", position), claim.get("name") or ""
        yield from node_list_errors(claim.get("unsuitableNodes") or [], child(at, "unsuitableNodes"))
        if name in seen:
            yield duplicate(at, name)
        seen.add(name)


class SchedulingStatusStrategy(DRAStatusStrategy):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(scheduling_status_errors(new.get("status") or {}))


class SchedulingContextStrategy(Mutable):
    """PodScheduling is the older name of the kind."""

    status = SchedulingStatusStrategy

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(scheduling_errors(obj.get("spec") or {}))


def pod_scheduling_context_cells(subject: Subject) -> Cells:
    return {"SelectedNode": subject.text("spec", "selectedNode")}

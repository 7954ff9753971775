"""ResourceSlice: defaults, strategy and cells of tables.

Sources: pkg/apis/resource/v1/defaults.go, pkg/registry/resource/resourceslice/strategy.go,
pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.registry.defaulting import DefaultingContext, each, fill_null, struct
from kubeskew.apiserver.registry.generic.builtin import BuiltIn
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.resource.devices import as_v1
from kubeskew.apiserver.registry.resource.resourceslice import validation
from kubeskew.apiserver.registry.tables.cells import Cells, Subject


def default_slice(obj: Object, ctx: DefaultingContext) -> None:
    for device in each(struct(obj, "spec"), "devices"):
        inner = device.get("basic") or device
        for taint in each(inner, "taints"):
            fill_null(taint, timeAdded=ctx.timestamp)
        for mapping in (inner.get("nodeAllocatableResourceMappings") or {}).values():
            fill_null(mapping, allocationMultiplier="1")


class SliceStrategy(BuiltIn):
    returns_deleted_object = True
    counts_dropped_fields = True
    indexed_field = "spec.nodeName"
    field_labels = ("spec.nodeName", "spec.driver", "spec.pool.name")

    def labels_in(self, group: str, features: Features) -> tuple[str, ...]:
        """Requests select by the pool's name since 1.37."""
        return features.devices.slice_labels

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(obj, None, ctx)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(new, old, ctx)

    def _errors(self, obj: Object, old: Object | None, ctx: StrategyContext) -> list[FieldError]:
        before = None if old is None else as_v1(old, ctx).get("spec") or {}
        rules, bare = ctx.features.devices, []
        if rules.wrapper:
            listed = (obj.get("spec") or {}).get("devices") or []
            bare = [place for place, device in enumerate(listed) if device.get("basic") is None]
        return validation.slice_errors(as_v1(obj, ctx).get("spec") or {}, before, rules, bare)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return [] if not ctx.features.devices.slice_warnings else validation.warnings(obj.get("spec") or {})


def resource_slice_cells(subject: Subject) -> Cells:
    return {
        "Node": subject.text("spec", "nodeName"),
        "Driver": subject.text("spec", "driver"),
        "Pool": subject.text("spec", "pool", "name"),
    }

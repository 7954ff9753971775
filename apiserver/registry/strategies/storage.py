"""storage.k8s.io but for storage classes.

Source: k8s.io/kubernetes/pkg/registry/storage/*/strategy.go, 1.36.
"""

from typing import ClassVar

from kubeskew.apimachinery.errors import GroupResource, Object
from kubeskew.apimachinery.field import FieldError
from kubeskew.apiserver.registry.strategies.checked import Checked, CheckedAsNew, OwnRules
from kubeskew.apiserver.registry.strategies.shared import Returned
from kubeskew.apiserver.registry.strategy import StatusStrategy, Strategy, StrategyContext
from kubeskew.apiserver.registry.validation import selectors, storage_drivers
from kubeskew.apiserver.registry.warnings import node_labels

_GROUP = "storage.k8s.io"


class CSIDriverStrategy(Checked, Returned):
    allow_unconditional_update = False

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(storage_drivers.driver_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return [*self.validate(new, ctx), *storage_drivers.driver_update_errors(new, old)]


class CSINodeStrategy(Checked, Returned):
    """A change is looked at as a new object twice."""

    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(storage_drivers.node_errors(obj.get("spec") or {}))

    def check_change(
        self, new: Object, old: Object, ctx: StrategyContext, metadata: list[FieldError]
    ) -> list[FieldError]:
        whole, counts = self.as_new(new, ctx), ctx.gates.enabled("MutableCSINodeAllocatableCount")
        return [*whole, *whole, *storage_drivers.node_update_errors(new, old, counts_change=counts)]


def _attachment_change(
    strategy: Strategy, new: Object, old: Object, ctx: StrategyContext
) -> list[FieldError]:
    whole = [*strategy.metadata_errors(new, ctx), *storage_drivers.attachment_errors(new)]
    return [*whole, *whole, *storage_drivers.attachment_update_errors(new, old)]


class AttachmentStatus(OwnRules, StatusStrategy):
    """Whether the volume is attached."""

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("metadata",), ("spec",))

    def check_change(
        self, new: Object, old: Object, ctx: StrategyContext, metadata: list[FieldError]
    ) -> list[FieldError]:
        return _attachment_change(self, new, old, ctx)


class AttachmentStrategy(Checked, Returned):
    """VolumeAttachment."""

    status: ClassVar[type[Strategy]] = AttachmentStatus
    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return [*storage_drivers.attachment_errors(obj), *storage_drivers.new_attachment_errors(obj)]

    def check_change(
        self, new: Object, old: Object, ctx: StrategyContext, metadata: list[FieldError]
    ) -> list[FieldError]:
        return _attachment_change(self, new, old, ctx)


class CapacityStrategy(Checked, Returned):
    """CSIStorageCapacity."""

    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(storage_drivers.capacity_errors(obj))

    def check_change(
        self, new: Object, old: Object, ctx: StrategyContext, metadata: list[FieldError]
    ) -> list[FieldError]:
        lenient = any(selectors.selector_errors(old.get("nodeTopology") or {}, ""))
        return [
            *self.metadata_errors(new, ctx),
            *storage_drivers.capacity_errors(new, lenient=lenient),
            *metadata,
            *storage_drivers.capacity_update_errors(new, old),
        ]

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return list(node_labels.selector_warnings(obj.get("nodeTopology"), "nodeTopology"))


class AttributesClassStrategy(CheckedAsNew, Returned):
    """VolumeAttributesClass."""

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(storage_drivers.attributes_errors(obj))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return [*storage_drivers.attributes_update_errors(new, old), *self.as_new(new, ctx)]


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource(_GROUP, "csidrivers"): CSIDriverStrategy,
    GroupResource(_GROUP, "csinodes"): CSINodeStrategy,
    GroupResource(_GROUP, "volumeattachments"): AttachmentStrategy,
    GroupResource(_GROUP, "csistoragecapacities"): CapacityStrategy,
    GroupResource(_GROUP, "volumeattributesclasses"): AttributesClassStrategy,
}

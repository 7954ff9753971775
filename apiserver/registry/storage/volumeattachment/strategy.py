"""Decides how VolumeAttachments are written.

Source: pkg/registry/storage/volumeattachment/strategy.go, 1.36.
"""

from typing import ClassVar

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import Returned
from kubeskew.apiserver.registry.generic.checked import Checked, OwnRules
from kubeskew.apiserver.registry.generic.strategy import StatusStrategy, Strategy, StrategyContext
from kubeskew.apiserver.registry.storage.volumeattachment import validation as volumeattachment_validation


def _attachment_change(
    strategy: Strategy, new: Object, old: Object, ctx: StrategyContext
) -> list[FieldError]:
    whole = [*strategy.metadata_errors(new, ctx), *volumeattachment_validation.attachment_errors(new)]
    return [*whole, *whole, *volumeattachment_validation.attachment_update_errors(new, old)]


class AttachmentStatus(OwnRules, StatusStrategy):
    """Validates a write of the status, which attachers make; it owns neither metadata nor spec."""

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
        return [
            *volumeattachment_validation.attachment_errors(obj),
            *volumeattachment_validation.new_attachment_errors(obj),
        ]

    def check_change(
        self, new: Object, old: Object, ctx: StrategyContext, metadata: list[FieldError]
    ) -> list[FieldError]:
        return _attachment_change(self, new, old, ctx)

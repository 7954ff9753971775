"""Decides how VolumeAttachments are written.

Source: pkg/registry/storage/volumeattachment/strategy.go, 1.36.
"""

from typing import ClassVar

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import MetadataKeptStatus, ReturnsDeletedObject
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenValidation
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext
from kubeskew.apiserver.registry.storage.volumeattachment import validation as volumeattachment_validation


class _AttachmentRules(HandwrittenValidation):
    """Looks at a change as a new object twice, whoever makes it."""

    update_checks = (Check.METADATA, Check.OWN_RULES, Check.METADATA, Check.OWN_RULES, Check.CHANGE)

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(volumeattachment_validation.attachment_errors(new))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(volumeattachment_validation.attachment_update_errors(new, old))


class AttachmentStatus(_AttachmentRules, MetadataKeptStatus):
    """Validates a write of the status, which attachers make; it owns neither metadata nor spec."""


class AttachmentStrategy(_AttachmentRules, ReturnsDeletedObject):
    """VolumeAttachment."""

    status: ClassVar[type[Strategy]] = AttachmentStatus
    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return [
            *volumeattachment_validation.attachment_errors(obj),
            *volumeattachment_validation.new_attachment_errors(obj),
        ]

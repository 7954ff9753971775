"""Decides how ResourcePoolStatusRequests are written.

Source: pkg/registry/resource/resourcepoolstatusrequest/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.generic.builtin import MetadataKeptStatus
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.resource.resourcepoolstatusrequest import (
    validation as resourcepoolstatusrequest_validation,
)


class StatusRequestStatus(MetadataKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        now, before = new.get("status"), old.get("status")
        return list(
            resourcepoolstatusrequest_validation.request_status_errors(now, before, ctx.features.devices)
        )


class StatusRequestStrategy(HandwrittenBuiltIn):
    """A ResourcePoolStatusRequest's spec never changes."""

    status = StatusRequestStatus
    returns_deleted_object = True
    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(
            resourcepoolstatusrequest_validation.request_errors(obj.get("spec") or {}, ctx.features.devices)
        )

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        if new.get("spec") != old.get("spec"):
            return [invalid("spec", None, IMMUTABLE)]
        return []

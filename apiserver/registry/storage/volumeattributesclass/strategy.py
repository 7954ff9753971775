"""Decides how VolumeAttributesClasses are written.

Source: pkg/registry/storage/volumeattributesclass/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import ReturnsDeletedObject
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.handwritten_validation import ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.storage.volumeattributesclass import (
    validation as volumeattributesclass_validation,
)


class AttributesClassStrategy(ValidatedAsNew, ReturnsDeletedObject):
    """VolumeAttributesClass: as upstream, a change is checked as a new object, twice."""

    update_checks = (*ValidatedAsNew.update_checks, Check.METADATA, Check.OWN_RULES)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(volumeattributesclass_validation.attributes_errors(obj))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(volumeattributesclass_validation.attributes_update_errors(new, old))

"""Decides how VolumeAttributesClasses are written.

Source: pkg/registry/storage/volumeattributesclass/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import Returned
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.checked import CheckedAsNew
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.storage.volumeattributesclass import (
    validation as volumeattributesclass_validation,
)


class AttributesClassStrategy(CheckedAsNew, Returned):
    """VolumeAttributesClass: as upstream, a change is checked as a new object, twice."""

    checks_of_update = (*CheckedAsNew.checks_of_update, Check.METADATA, Check.OWN_RULES)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(volumeattributesclass_validation.attributes_errors(obj))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(volumeattributesclass_validation.attributes_update_errors(new, old))

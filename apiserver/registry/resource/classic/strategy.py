"""Strategies that the kinds of classic dynamic resource allocation share."""

from typing import ClassVar

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn, ReturnsDeletedObject
from kubeskew.apiserver.registry.generic.strategy import TWICE_AS_NEW, Checks, StrategyContext


class Mutable(HandwrittenBuiltIn, ReturnsDeletedObject):
    """A changed object is checked as a new one; any change is fine."""

    update_checks: ClassVar[Checks] = TWICE_AS_NEW

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return []

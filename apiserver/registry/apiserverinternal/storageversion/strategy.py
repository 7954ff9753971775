"""Decides how StorageVersions are written.

Source: pkg/registry/apiserverinternal/storageversion/strategy.go, 1.36.
"""

from typing import ClassVar

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.apiserverinternal.storageversion import (
    validation as storageversion_validation,
)
from kubeskew.apiserver.registry.generic.builtin import BuiltIn, SpecKeptStatus
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenValidation, WithoutMetadata
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext


class StorageVersionStatus(WithoutMetadata, SpecKeptStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(storageversion_validation.status_errors(new.get("status") or {}))


class StorageVersionStrategy(HandwrittenValidation, BuiltIn):
    """StorageVersions: the spec is empty, so a change of it needs no check."""

    update_checks = ()
    status: ClassVar[type[Strategy]] = StorageVersionStatus
    allow_unconditional_update = False

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return storageversion_validation.name_texts(name)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(storageversion_validation.status_errors(obj.get("status") or {}))

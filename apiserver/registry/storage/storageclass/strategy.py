"""Decides how StorageClasses are written.

Source: pkg/registry/storage/storageclass/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import ReturnsDeletedObject
from kubeskew.apiserver.registry.generic.handwritten_validation import ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared import node_labels
from kubeskew.apiserver.registry.storage.storageclass import validation as storageclass_validation


class StorageClassStrategy(ValidatedAsNew, ReturnsDeletedObject):
    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(storageclass_validation.storage_class_errors(obj))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        immutable = ctx.features.volumes.immutable_classes
        return list(storageclass_validation.storage_class_update_errors(new, old, immutable=immutable))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return list(node_labels.topology_warnings(obj.get("allowedTopologies") or [], "allowedTopologies"))

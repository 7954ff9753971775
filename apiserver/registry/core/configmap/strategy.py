"""Decides how ConfigMaps are written.

Source: pkg/registry/core/configmap/strategy.go, 1.36.
"""

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, invalid, key, too_long
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.core.data import MAX_DATA_BYTES, data_size, immutable_errors
from kubeskew.apiserver.registry.generic.builtin import BuiltIn
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.strategy import StrategyContext


class ConfigMapStrategy(BuiltIn):
    update_checks = (
        Check.METADATA,
        Check.METADATA_CHANGE,
        Check.STRUCTURE,
        Check.CHANGE,
        Check.OWN_RULES,
    )

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = []
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        for field, values in (("data", data), ("binaryData", binary)):
            for name in sorted(values):
                errors += [invalid(key(field, name), name, text) for text in names.config_key(name)]
                if field == "data" and name in binary:
                    errors.append(invalid(key(field, name), name, "duplicate of key present in binaryData"))
        if data_size(obj, "data", "binaryData") > MAX_DATA_BYTES:
            errors.append(too_long("", MAX_DATA_BYTES))
        return errors

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return immutable_errors(new, old, "data", "binaryData")

"""ConfigMap: strategy, cells of tables, and the rules of size and immutability that secrets share.

Source: pkg/registry/core/configmap/strategy.go, 1.36.
"""

import base64

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, forbidden, invalid, key, too_long
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import BuiltIn
from kubeskew.apiserver.registry.generic.strategy import Check, StrategyContext
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

MAX_DATA_BYTES = 1024 * 1024

_IMMUTABLE_DATA = "field is immutable when `immutable` is set"


def data_size(obj: Object, *fields: str) -> int:
    size = 0
    for field in fields:
        for value in (obj.get(field) or {}).values():
            size += (
                len(base64.b64decode(value or ""))
                if field != "data" or obj["kind"] == "Secret"
                else len(value.encode())
            )
    return size


def immutable_errors(new: Object, old: Object, *fields: str) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    errors = []
    if not new.get("immutable"):
        errors.append(forbidden("immutable", _IMMUTABLE_DATA))
    errors += [forbidden(name, _IMMUTABLE_DATA) for name in fields if new.get(name) != old.get(name)]
    return errors


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
            errors.append(too_long("[]", MAX_DATA_BYTES))  # a path without a name
        return errors

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return immutable_errors(new, old, "data", "binaryData")


def config_map_cells(subject: Subject) -> Cells:
    return {"Data": subject.count("data") + subject.count("binaryData")}

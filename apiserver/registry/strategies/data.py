"""Config maps and secrets. Source: pkg/registry/core/{configmap,secret} and core validation, 1.36."""

import base64

from kubeskew.apimachinery.errors import Object
from kubeskew.apimachinery.field import FieldError, forbidden, invalid, key, too_long
from kubeskew.apimachinery.validation import names
from kubeskew.apiserver.registry.strategies.shared import BuiltIn
from kubeskew.apiserver.registry.strategy import StrategyContext, keep
from kubeskew.apiserver.registry.validation.secrets import type_errors

MAX_DATA_BYTES = 1024 * 1024
_IMMUTABLE_DATA = "field is immutable when `immutable` is set"


def _data_size(obj: Object, *fields: str) -> int:
    size = 0
    for field in fields:
        for value in (obj.get(field) or {}).values():
            size += (
                len(base64.b64decode(value or ""))
                if field != "data" or obj["kind"] == "Secret"
                else len(value.encode())
            )
    return size


def _frozen(new: Object, old: Object, *fields: str) -> list[FieldError]:
    """What an `immutable` object may not change."""
    if not old.get("immutable"):
        return []
    errors = []
    if not new.get("immutable"):
        errors.append(forbidden("immutable", _IMMUTABLE_DATA))
    errors += [forbidden(name, _IMMUTABLE_DATA) for name in fields if new.get(name) != old.get(name)]
    return errors


class ConfigMapStrategy(BuiltIn):
    asks_as_new = 1

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = []
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        for field, values in (("data", data), ("binaryData", binary)):
            for name in sorted(values):
                errors += [invalid(key(field, name), name, text) for text in names.config_key(name)]
                if field == "data" and name in binary:
                    errors.append(invalid(key(field, name), name, "duplicate of key present in binaryData"))
        if _data_size(obj, "data", "binaryData") > MAX_DATA_BYTES:
            errors.append(too_long("", MAX_DATA_BYTES))
        return errors

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return [*_frozen(new, old, "data", "binaryData"), *self.validate(new, ctx)]


class SecretStrategy(BuiltIn):
    """`stringData` is only a way to write `data`."""

    field_labels = ("type",)
    asks_as_new = 1

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        self._merge(obj)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        self._merge(new)
        if not new.get("type"):
            keep(new, old, "type")

    def _merge(self, obj: Object) -> None:
        texts = obj.pop("stringData", None)
        if texts:
            data = obj["data"] = dict(obj.get("data") or {})
            data.update({name: base64.b64encode(text.encode()).decode() for name, text in texts.items()})

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        data = obj.get("data") or {}
        for name in sorted(data):
            errors += [invalid(key("data", name), name, text) for text in names.config_key(name)]
        if _data_size(obj, "data") > MAX_DATA_BYTES:
            errors.append(too_long("data", MAX_DATA_BYTES))
        return [*errors, *type_errors(obj, data)]

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = []
        if new.get("type") != old.get("type"):
            errors.append(invalid("type", new.get("type") or "", "field is immutable"))
        return [*errors, *_frozen(new, old, "data"), *self.validate(new, ctx)]

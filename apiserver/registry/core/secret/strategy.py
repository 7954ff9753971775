"""Decides how Secrets are written.

Source: pkg/registry/core/secret/strategy.go, 1.36.
"""

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, invalid, key, too_long
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.core.data import MAX_DATA_BYTES, data_size, immutable_errors
from kubeskew.apiserver.registry.core.secret.key_pairs import key_pair_problem
from kubeskew.apiserver.registry.core.secret.validation import type_errors
from kubeskew.apiserver.registry.generic.builtin import BuiltIn
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.strategy import StrategyContext, keep


class SecretStrategy(BuiltIn):
    """Keeps the type of a secret."""

    field_labels = ("type",)
    update_checks = (
        Check.METADATA,
        Check.METADATA_CHANGE,
        Check.STRUCTURE,
        Check.CHANGE,
        Check.OWN_RULES,
    )

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        if not new.get("type"):
            keep(new, old, "type")

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors: list[FieldError] = []
        data = obj.get("data") or {}
        for name in sorted(data):
            errors += [invalid(key("data", name), name, text) for text in names.config_key(name)]
        if data_size(obj, "data") > MAX_DATA_BYTES:
            errors.append(too_long("data", MAX_DATA_BYTES))
        return [*errors, *type_errors(obj, data)]

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        if obj.get("type") != "kubernetes.io/tls":
            return []
        data = obj.get("data") or {}
        problem = key_pair_problem(data.get("tls.crt") or "", data.get("tls.key") or "")
        return [problem] if problem else []

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = []
        if new.get("type") != old.get("type"):
            errors.append(invalid("type", new.get("type") or "", "field is immutable"))
        return [*errors, *immutable_errors(new, old, "data")]

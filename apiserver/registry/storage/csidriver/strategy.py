"""Decides how CSIDrivers are written.

Source: pkg/registry/storage/csidriver/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import ReturnsDeletedObject
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.storage.csidriver import validation as csidriver_validation

_TOKENS = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent "
    "possible logging of tokens in volume attributes"
)


class CSIDriverStrategy(HandwrittenBuiltIn, ReturnsDeletedObject):
    update_checks = (Check.METADATA_CHANGE, Check.OWN_RULES, Check.CHANGE)
    allow_unconditional_update = False

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        spec = obj.get("spec") or {}
        wanted = spec.get("tokenRequests") and spec.get("serviceAccountTokenInSecrets") is None
        return [_TOKENS] if ctx.features.volumes.tokens_in_secrets and wanted else []

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        after, before = ((driver.get("spec") or {}).get("tokenRequests") or [] for driver in (new, old))
        return self.warnings(new, ctx) if after != before else []

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(csidriver_validation.driver_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(csidriver_validation.driver_update_errors(new, old))

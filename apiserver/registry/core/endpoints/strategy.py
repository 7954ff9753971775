"""Decides how Endpoints are written.

Source: pkg/registry/core/endpoint/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.core.endpoints import validation as endpoints_validation
from kubeskew.apiserver.registry.core.service.warnings import endpoint_warnings
from kubeskew.apiserver.registry.generic.builtin import CreatedByUpdate
from kubeskew.apiserver.registry.generic.check_order import UPDATE, Check
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.user import SERVER


class EndpointsStrategy(CreatedByUpdate):
    update_checks = (Check.METADATA, *UPDATE)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(obj, None, ctx)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(new, old, ctx)

    def _errors(self, new: Object, old: Object | None, ctx: StrategyContext) -> list[FieldError]:
        strict, local = ctx.features.strict_addresses, ctx.user.name == SERVER.name
        return list(endpoints_validation.endpoints_errors(new, old, strict=strict, local=local))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return endpoint_warnings(obj) if ctx.features.services.endpoint_warnings else []

"""Decides how Leases are written.

Source: pkg/registry/coordination/lease/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.coordination.lease import validation as lease_validation
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StrategyContext


class LeaseStrategy(HandwrittenBuiltIn):
    core_metadata = False
    allow_create_on_update = True
    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(lease_validation.lease_errors(obj.get("spec") or {}))

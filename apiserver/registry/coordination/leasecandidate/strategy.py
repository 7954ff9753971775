"""Decides how LeaseCandidates are written.

Source: pkg/registry/coordination/leasecandidate/strategy.go, 1.36.
"""

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.coordination.lease.strategy import LeaseStrategy
from kubeskew.apiserver.registry.coordination.leasecandidate import validation as leasecandidate_validation
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.strategy import StrategyContext


class LeaseCandidateStrategy(LeaseStrategy):
    """Lease candidates: their names follow the rules for keys of config maps."""

    update_checks = (Check.METADATA_CHANGE, Check.OWN_RULES, Check.CHANGE)

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return names.config_key(name)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(leasecandidate_validation.candidate_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(leasecandidate_validation.candidate_update_errors(new, old))

"""coordination.k8s.io: leases and candidates. Source: pkg/registry/coordination/*/strategy.go, 1.36."""

from kubeskew.apimachinery.errors import GroupResource, Object
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.validation import names
from kubeskew.apiserver.registry.strategies.checked import Checked
from kubeskew.apiserver.registry.strategy import Strategy, StrategyContext
from kubeskew.apiserver.registry.validation import leases

_GROUP = "coordination.k8s.io"


class LeaseStrategy(Checked):
    core_metadata = False
    allow_create_on_update = True
    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(leases.lease_errors(obj.get("spec") or {}))


class LeaseCandidateStrategy(LeaseStrategy):
    """Named as keys of config maps are."""

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return names.config_key(name)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(leases.candidate_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return [*self.validate(new, ctx), *leases.candidate_update_errors(new, old)]


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource(_GROUP, "leases"): LeaseStrategy,
    GroupResource(_GROUP, "leasecandidates"): LeaseCandidateStrategy,
}

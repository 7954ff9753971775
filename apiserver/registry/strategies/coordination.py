"""coordination.k8s.io: leases. Source: pkg/apis/coordination/validation, 1.36."""

from apimachinery.errors import GroupResource, Object
from apimachinery.field import FieldError, invalid
from apiserver.registry.strategies.shared import BuiltIn
from apiserver.registry.strategy import Strategy, StrategyContext


class LeaseStrategy(BuiltIn):
    allow_create_on_update = True
    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = []
        seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if seconds is not None and seconds <= 0:
            errors.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            text = "must be greater than or equal to 0"
            errors.append(invalid("spec.leaseTransitions", transitions, text))
        return errors


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource("coordination.k8s.io", "leases"): LeaseStrategy,
}

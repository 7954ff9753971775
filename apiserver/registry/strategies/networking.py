"""networking.k8s.io.

Source: k8s.io/kubernetes/pkg/registry/networking/*/strategy.go, 1.36.
"""

from typing import ClassVar

from kubeskew.apimachinery.errors import GroupResource, Object
from kubeskew.apimachinery.field import FieldError
from kubeskew.apiserver.registry.strategies.checked import Checked, CheckedAsNew
from kubeskew.apiserver.registry.strategies.shared import Counted, SpecKeptStatus
from kubeskew.apiserver.registry.strategy import Strategy, StrategyContext
from kubeskew.apiserver.registry.validation import ingresses, network_policies

_GROUP = "networking.k8s.io"
_STRICT, _RELAXED = "StrictIPCIDRValidation", "RelaxedServiceNameValidation"


class IngressStatus(SpecKeptStatus):
    """Where the ingress is reached."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(ingresses.status_errors(new, old, strict=ctx.gates.enabled(_STRICT)))


class IngressStrategy(Checked, Counted):
    status: ClassVar[type[Strategy]] = IngressStatus

    def _errors(self, obj: Object, old: Object | None, ctx: StrategyContext) -> list[FieldError]:
        lenient = ingresses.Leniency.of(old, relaxed=ctx.gates.enabled(_RELAXED))
        return list(ingresses.spec_errors(obj.get("spec") or {}, "spec", lenient))

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return [*self._errors(obj, None, ctx), *ingresses.class_annotation_errors(obj)]

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return [*self.metadata_errors(new, ctx), *self._errors(new, old, ctx)]

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        annotated = ingresses.CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {})
        if not annotated or obj["spec"].get("ingressClassName") is not None:
            return []
        name = ingresses.CLASS_ANNOTATION
        return [f"annotation \"{name}\" is deprecated, please use 'spec.ingressClassName' instead"]

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return []


class IngressClassStrategy(Checked, Counted):
    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(ingresses.class_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return [*ingresses.class_update_errors(new, old), *self.as_new(new, ctx)]


class NetworkPolicyStrategy(CheckedAsNew, Counted):
    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        strict = ctx.gates.enabled(_STRICT)
        return list(network_policies.policy_errors(obj.get("spec") or {}, strict=strict))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        strict, known = ctx.gates.enabled(_STRICT), network_policies.ranges(old.get("spec") or {})
        return list(network_policies.policy_errors(new.get("spec") or {}, strict=strict, known=known))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return network_policies.policy_warnings(obj.get("spec") or {})


class IPAddressStrategy(CheckedAsNew):
    """Named by the address itself."""

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return network_policies.address_name_texts(name)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(network_policies.address_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(network_policies.address_update_errors(new, old))


class ServiceCIDRStrategy(CheckedAsNew):
    """Its status is not kept from those who write the rest."""

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        """Nothing is reset."""

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        """Nothing is reset."""

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(network_policies.service_range_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(network_policies.service_range_update_errors(new, old))


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource(_GROUP, "ingresses"): IngressStrategy,
    GroupResource(_GROUP, "ingressclasses"): IngressClassStrategy,
    GroupResource(_GROUP, "networkpolicies"): NetworkPolicyStrategy,
    GroupResource(_GROUP, "ipaddresses"): IPAddressStrategy,
    GroupResource(_GROUP, "servicecidrs"): ServiceCIDRStrategy,
}

"""Holds the strategy of endpoint slices (discovery.k8s.io).

Source: k8s.io/kubernetes/pkg/registry/discovery/endpointslice/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.discovery.endpointslice import validation as endpointslice_validation
from kubeskew.apiserver.registry.generic.builtin import WithGeneration
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.user import SERVER

_HOST = "kubernetes.io/hostname"


class EndpointSliceStrategy(HandwrittenBuiltIn, WithGeneration):
    """Labels count as content does; v1 has no topology to write.

    The server itself listens on this machine, and may say so: nobody else may name a loopback address.
    """

    update_checks = (Check.METADATA, Check.OWN_RULES, Check.CHANGE)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        _drop_topology(obj, {})

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        if (new["metadata"].get("labels") or {}) != (old["metadata"].get("labels") or {}):
            new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1
        if (new.get("endpoints") or []) != (old.get("endpoints") or []):
            _drop_topology(new, old)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(
            endpointslice_validation.slice_errors(
                obj, local=ctx.user.name == SERVER.name, typed=ctx.features.services.typed_endpoints
            )
        )

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        local = ctx.user.name == SERVER.name
        return list(
            endpointslice_validation.slice_errors(
                new, old, local=local, typed=ctx.features.services.typed_endpoints
            )
        )

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(endpointslice_validation.update_errors(new, old))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        found = self.update_warnings(obj, {}, ctx)
        if obj.get("addressType") == "FQDN":
            found.insert(0, "spec.addressType: FQDN endpoints are deprecated")
        return found

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return (
            list(endpointslice_validation.address_warnings(new))
            if ctx.features.services.endpoint_warnings
            else []
        )


def _drop_topology(new: Object, old: Object) -> None:
    """Drops the topology of v1beta1, which v1 took over; a node that it named stays in its own field."""
    known = {
        (endpoint.get("deprecatedTopology") or {}).get(_HOST) for endpoint in old.get("endpoints") or []
    } - {
        None,
        "",
    }
    for endpoint in new.get("endpoints") or []:
        node = (endpoint.pop("deprecatedTopology", None) or {}).get(_HOST)
        if node in known and endpoint.get("nodeName") is None:
            endpoint["nodeName"] = node

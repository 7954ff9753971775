"""Holds the strategies of services. Source: pkg/registry/core/service (strategy.go, storage/storage.go),
1.36.
"""

import ipaddress

from kubeskew.apimachinery import errors, names
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver import object_meta
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.registry.core.service import addresses, changes, families, traffic
from kubeskew.apiserver.registry.core.service import validation as service_validation
from kubeskew.apiserver.registry.core.service.allocation import KIND, Allocation
from kubeskew.apiserver.registry.core.service.warnings import service_warnings, status_warnings
from kubeskew.apiserver.registry.generic.builtin import BuiltIn, SpecKeptStatus
from kubeskew.apiserver.registry.generic.check_order import UPDATE, Check
from kubeskew.apiserver.registry.generic.strategy import StrategyContext


class ServiceStatusStrategy(SpecKeptStatus):
    """Refuses the status of a load balancer in services of other types."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(traffic.status_errors(new, old, ctx.features.services))

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return status_warnings(new) if ctx.features.services.status_warnings else []


class ServiceStrategy(BuiltIn):
    exclusive = True
    status = ServiceStatusStrategy
    update_checks = (Check.METADATA, *UPDATE)
    allow_create_on_update = True
    returns_deleted_object = True
    field_labels = ("spec.clusterIP", "spec.type")

    def labels_in(self, group: str, features: Features) -> tuple[str, ...]:
        return self.field_labels if features.services.field_labels else ()

    def metadata_errors(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        relaxed = ctx.features.services.relaxed_names
        check = names.dns1123_label if relaxed else names.dns1035_label
        return object_meta.validate_object_meta(obj["metadata"], True, check)

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["status"] = {"loadBalancer": {}}
        changes.normalize_addresses(obj["spec"], {})
        if self._is_completed(obj, {}, ctx):
            Allocation(obj, ctx).create()

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        spec, before = new["spec"], old["spec"]
        changes.patch_allocated(spec, before)
        changes.normalize_addresses(spec, before)
        if self._is_completed(new, before, ctx):
            Allocation(new, ctx).update(before)
        changes.drop_outdated(spec, before)
        if spec.get("type") != "LoadBalancer":
            new["status"] = {**(new.get("status") or {}), "loadBalancer": {}}

    def _is_completed(self, obj: Object, before: Object, ctx: StrategyContext) -> bool:
        """Fill in the address families, of a service that has any; raises 422, before all other rules."""
        spec = obj["spec"]
        if spec.get("type") == "ExternalName":
            return False
        family = f"IPv{ipaddress.ip_network(ctx.service_ip_range).version}"
        if wrong := families.complete(spec, before, family, ctx.features.services):
            raise errors.invalid(KIND, obj["metadata"].get("name") or "", wrong)
        return True

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return service_validation.service_errors(obj, None, ctx.features.services)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        before, after = old["spec"], new["spec"]
        return [
            *addresses.change_errors(after, before),
            *traffic.class_errors(after, before),
            *traffic.health_port_errors(after, before),
            *service_validation.service_errors(new, old, ctx.features.services),
        ]

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return service_warnings(obj, ctx.features.services)

"""Decides how IPAddresses are written.

Source: pkg/registry/networking/ipaddress/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.handwritten_validation import ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.networking.ipaddress import validation as ipaddress_validation


class IPAddressStrategy(ValidatedAsNew):
    """Named by the address itself."""

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return ipaddress_validation.address_name_texts(name)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(ipaddress_validation.address_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(ipaddress_validation.address_update_errors(new, old))

"""Decides how ResourceClasses of cdi.k8s.io are written.

Source: KEP-3063 as drafted, section API; where the draft is silent, as the kind shipped in 1.26.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import ReturnsDeletedObject
from kubeskew.apiserver.registry.generic.handwritten_validation import ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.volumes.sources import csi_driver_name


class ResourceClassStrategy(ValidatedAsNew, ReturnsDeletedObject):
    """Lets a class change: a claim keeps the name of the driver that allocated it."""

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(csi_driver_name(obj.get("driverName") or "", "driverName", required_alone=False))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return []

"""ResourceClass of cdi.k8s.io: strategy and cells of tables.

Where the draft is silent, the kind is as it shipped in 1.26. Source: KEP-3063 as drafted, section API.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import ReturnsDeletedObject, ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.volumes.sources import csi_driver_name
from kubeskew.apiserver.registry.tables.cells import Cells, Subject


class ResourceClassStrategy(ValidatedAsNew, ReturnsDeletedObject):
    """Classes may change: a claim keeps the name of the driver that allocated it."""

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(csi_driver_name(obj.get("driverName") or "", "driverName", required_alone=False))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return []


def resource_class_cells(subject: Subject) -> Cells:
    return {"DriverName": subject.text("driverName")}

"""ResourceClass, a kind of 1.26 to 1.30: validation, strategy and cells of tables.

Source: pkg/apis/resource/validation/validation.go, 1.26 to 1.30.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.resource import devices
from kubeskew.apiserver.registry.resource.classic import rules
from kubeskew.apiserver.registry.resource.classic.strategy import Mutable
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.tables.cells import Cells, Subject


def class_errors(obj: Object) -> Iterator[FieldError]:
    yield from rules.driver(obj.get("driverName") or "", "driverName")
    reference = obj.get("parametersRef")
    yield from rules.parameters_reference_errors(reference, "parametersRef")
    namespace = (reference or {}).get("namespace")
    if namespace:
        yield from devices.label(namespace, "parametersRef.namespace")
    if obj.get("suitableNodes") is not None:
        yield from selectors.node_selector_errors(obj["suitableNodes"], "suitableNodes", any_value=True)


class ResourceClassStrategy(Mutable):
    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(class_errors(obj))


def resource_class_cells(subject: Subject) -> Cells:
    return {"DriverName": subject.text("driverName")}

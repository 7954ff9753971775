"""VolumeAttributesClass: validation, strategy and cells of tables.

Sources: pkg/apis/storage/validation/validation.go, pkg/registry/storage/volumeattributesclass/strategy.go,
1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError, forbidden, invalid, required, too_long
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import ReturnsDeletedObject, ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import Check, StrategyContext
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

_MAX_PARAMETER_BYTES = 256 * 1024

_MAX_PARAMETERS = 512


def attributes_errors(obj: Object) -> Iterator[FieldError]:
    driver, parameters = obj.get("driverName") or "", obj.get("parameters") or {}
    if not driver:
        yield required("driverName")
    else:
        yield from (
            invalid("driverName", driver.lower(), text) for text in names.qualified_name(driver.lower())
        )
    if len(parameters) > _MAX_PARAMETERS:
        yield too_long("parameters", _MAX_PARAMETERS)
        return
    if "" in parameters:
        yield invalid("parameters", "", "field can not be empty.")
    if (
        sum(len(name.encode()) + len(value.encode()) for name, value in parameters.items())
        > _MAX_PARAMETER_BYTES
    ):
        yield too_long("parameters", _MAX_PARAMETER_BYTES)
    if not parameters:
        yield required("parameters", "must contain at least one key/value pair")


def attributes_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    for name in ("driverName", "parameters"):
        if (new.get(name) or None) != (old.get(name) or None):
            yield forbidden(name, f"updates to {name} are forbidden.")


class AttributesClassStrategy(ValidatedAsNew, ReturnsDeletedObject):
    """Changes are checked as new objects, twice, as upstream."""

    update_checks = (*ValidatedAsNew.update_checks, Check.METADATA, Check.OWN_RULES)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(attributes_errors(obj))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(attributes_update_errors(new, old))


def volume_attributes_class_cells(subject: Subject) -> Cells:
    return {"DriverName": subject.text("driverName")}

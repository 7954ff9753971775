"""ControllerRevision: strategy and cells of tables.

Source: pkg/registry/apps/controllerrevision/strategy.go and pkg/apis/apps/validation/validation.go
(ValidateControllerRevisionCreate), 1.31 to 1.36.
"""

from kubeskew.apimachinery.field import FieldError, invalid, required
from kubeskew.apimachinery.objects import Object, controller_of
from kubeskew.apiserver.registry.generic.builtin import BuiltIn
from kubeskew.apiserver.registry.generic.strategy import UPDATE_AS_NEW, Check, StrategyContext
from kubeskew.apiserver.registry.shared import workloads
from kubeskew.apiserver.registry.tables.cells import NONE, Cells, Subject, kind_name


class ControllerRevisionStrategy(BuiltIn):
    """A revision never changes: it is the template that a set had at some time."""

    update_checks = (Check.METADATA, *UPDATE_AS_NEW)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = list(workloads.not_negative(obj, "", "revision"))
        checks_object = ctx.features.workloads.revision_data_is_object
        data = obj.get("data")
        if data is None:
            errors.append(required("data", "data is mandatory"))
        elif checks_object and not isinstance(data, dict):
            errors.append(required("data", "data must be a valid JSON object"))
        return errors

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        if not ctx.features.workloads.revision_data_is_object:
            return self.validate(new, ctx)
        return list(workloads.not_negative(new, "", "revision"))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        if new.get("data") != old.get("data"):
            return [invalid("data", new.get("data"), "field is immutable")]
        return []


def controller_revision_cells(subject: Subject) -> Cells:
    owner = controller_of(subject.obj)
    controller = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        controller = f"{kind_name(owner.get('kind', ''), group).lower()}/{owner.get('name', '')}"
    return {"Controller": controller, "Revision": subject.number("revision")}

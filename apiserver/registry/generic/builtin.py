"""Several kinds share these strategies.

They keep a generation, leave metadata alone in a status write, or have complete rules of their own, as
upstream's Validate and ValidateUpdate.
"""

from typing import ClassVar

from kubeskew.apimachinery.golang.roundtrip import always_written, zero
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.strategy import (
    AS_NEW_AND_AS_CHANGE,
    Check,
    Checks,
    StatusStrategy,
    Strategy,
    StrategyContext,
)


class SpecKeptStatus(StatusStrategy):
    """Kinds that never called ResetObjectMetaForStatus: metadata may change with a write of the status."""

    kept_metadata: ClassVar[tuple[str, ...]] = ()


class MetadataKeptStatus(StatusStrategy):
    """All metadata stays on a write of the status, and its writer comes to own none."""

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("metadata",), ("spec",))


class LabelsKeptStatus(StatusStrategy):
    """Only the labels stay on a write of the status, as a deployment's do."""

    kept_metadata = ("labels",)

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("spec",), ("metadata", "labels"))


class BuiltIn(Strategy):
    """New objects have Go's zero value of their status, not none."""

    status: ClassVar[type[Strategy]] = SpecKeptStatus

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        field = ctx.resource.schema.fields.get("status")
        if field is not None and "status" in ctx.resource.subresources and always_written(field):
            obj["status"] = zero(field.schema)


class WithGeneration(BuiltIn):
    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True


class ReturnsDeletedObject(BuiltIn):
    """There are no rules of the kind's own, and DELETE answers with the object."""

    returns_deleted_object = True


class CreatedByUpdate(BuiltIn):
    """PUT may create objects."""

    allow_create_on_update = True


class WithGenerationConditionalUpdate(WithGeneration):
    """Updates must carry a resourceVersion as well."""

    allow_unconditional_update = False


class HandwrittenValidation(Strategy):
    """Only the kind's own rules are checked: none follows from the schema."""

    create_checks: ClassVar[Checks] = (Check.METADATA, Check.OWN_RULES)
    update_checks: ClassVar[Checks] = (Check.METADATA_CHANGE, Check.CHANGE)


class HandwrittenBuiltIn(HandwrittenValidation, BuiltIn):
    pass


class ValidatedAsNew(HandwrittenBuiltIn):
    """Changes are checked twice: as new objects, and as changes."""

    update_checks: ClassVar[Checks] = AS_NEW_AND_AS_CHANGE


class WithoutMetadata(HandwrittenValidation):
    """Only rules that hold for all kinds are asked of the metadata."""

    create_checks: ClassVar[Checks] = (Check.OWN_RULES,)
    update_checks: ClassVar[Checks] = (Check.CHANGE,)

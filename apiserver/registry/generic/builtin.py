"""Holds strategies that several kinds share.

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
    """Status writes of kinds that never called ResetObjectMetaForStatus: metadata may change with them."""

    kept_metadata: ClassVar[tuple[str, ...]] = ()


class MetadataKeptStatus(StatusStrategy):
    """Keeps all metadata on a write of the status, and gives its writer none to own."""

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("metadata",), ("spec",))


class LabelsKeptStatus(StatusStrategy):
    """Keeps only the labels on a write of the status, as a deployment's."""

    kept_metadata = ("labels",)

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("spec",), ("metadata", "labels"))


class BuiltIn(Strategy):
    """A built-in kind: a new object has Go's zero value of its status, not none."""

    status: ClassVar[type[Strategy]] = SpecKeptStatus

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        field = ctx.resource.schema.fields.get("status")
        if field is not None and "status" in ctx.resource.subresources and always_written(field):
            obj["status"] = zero(field.schema)


class WithGeneration(BuiltIn):
    """A kind that counts its generations."""

    def counts_generation(self, ctx: StrategyContext) -> bool:
        return True


class ReturnsDeletedObject(BuiltIn):
    """A kind without rules of its own whose DELETE answers with the object."""

    returns_deleted_object = True


class CreatedByUpdate(BuiltIn):
    """A kind that a PUT may create."""

    allow_create_on_update = True


class WithGenerationConditionalUpdate(WithGeneration):
    """A kind whose updates must carry a resourceVersion as well."""

    allow_unconditional_update = False


class HandwrittenValidation(Strategy):
    """Checks by the kind's own rules alone: none follows from the schema."""

    create_checks: ClassVar[Checks] = (Check.METADATA, Check.OWN_RULES)
    update_checks: ClassVar[Checks] = (Check.METADATA_CHANGE, Check.CHANGE)


class HandwrittenBuiltIn(HandwrittenValidation, BuiltIn):
    """A built-in kind with rules of its own."""


class ValidatedAsNew(HandwrittenBuiltIn):
    """A kind whose changes are looked at twice: as new objects, and as changes."""

    update_checks: ClassVar[Checks] = AS_NEW_AND_AS_CHANGE


class WithoutMetadata(HandwrittenValidation):
    """A kind that does not look at its metadata: only what holds for all is asked of it."""

    create_checks: ClassVar[Checks] = (Check.OWN_RULES,)
    update_checks: ClassVar[Checks] = (Check.CHANGE,)

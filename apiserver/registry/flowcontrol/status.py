"""Decides how the status of flowcontrol kinds is written: conditions only."""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.flowcontrol.status_validation import status_errors
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenValidation
from kubeskew.apiserver.registry.generic.strategy import StatusStrategy, StrategyContext
from kubeskew.apiserver.storage.encoding import copied


class ConditionsOnly(HandwrittenValidation, StatusStrategy):
    """A status write that changes conditions alone, and none of the metadata."""

    update_checks = (Check.CHANGE,)

    def prepare_for_update(self, new: Object, old: Object, ctx: StrategyContext) -> None:
        super().prepare_for_update(new, old, ctx)
        sent = new["metadata"]
        held = {name: sent[name] for name in ("managedFields", "resourceVersion") if name in sent}
        new["metadata"] = {**copied(old["metadata"]), **held}

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        texts = ctx.features.requests.condition_texts
        return list(status_errors(new.get("status") or {}, texts=texts))

    def reset_fields(self, ctx: StrategyContext) -> tuple[tuple[str, ...], ...]:
        return (("metadata",), ("spec",))

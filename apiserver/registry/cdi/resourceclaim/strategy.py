"""Decides how ResourceClaims of cdi.k8s.io are written.

Source: KEP-3063 as drafted, section API; where the draft is silent, as the kind shipped in 1.26.
"""

from kubeskew.apimachinery.field import FieldError, invalid
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.cdi.resourceclaim.status_validation import status_errors
from kubeskew.apiserver.registry.generic.builtin import ReturnsDeletedObject, SpecKeptStatus
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenValidation, ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared.inline_claims import claim_spec_errors


class ClaimStatusStrategy(HandwrittenValidation, SpecKeptStatus):
    """Checks what scheduler, driver and kubelet write for each other."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(status_errors(new, old))


class ClaimStrategy(ValidatedAsNew, ReturnsDeletedObject):
    """Lets the spec be set once; does not look whether the class exists."""

    status = ClaimStatusStrategy

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        obj["status"] = {"phase": "Pending", "userLimit": 1}

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(claim_spec_errors(obj.get("spec") or {}, "spec"))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return [invalid("spec", new.get("spec"), IMMUTABLE)] if new.get("spec") != old.get("spec") else []

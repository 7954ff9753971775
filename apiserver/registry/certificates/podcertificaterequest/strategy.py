"""Decides how PodCertificateRequests are written.

Source: pkg/registry/certificates/podcertificaterequest/strategy.go, 1.36.
"""

from typing import ClassVar

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.certificates.podcertificaterequest import (
    validation as podcertificaterequest_validation,
)
from kubeskew.apiserver.registry.generic.handwritten_validation import (
    HandwrittenBuiltIn,
    HandwrittenValidation,
)
from kubeskew.apiserver.registry.generic.strategy import StatusStrategy, Strategy, StrategyContext
from kubeskew.apiserver.registry.shared import conditions


class PodCertificateStatus(HandwrittenValidation, StatusStrategy):
    """Validates the status that a signer writes."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        found = (new.get("status") or {}).get("conditions") or []
        return list(conditions.condition_errors(found, "status.conditions"))


class PodCertificateStrategy(HandwrittenBuiltIn):
    """PodCertificateRequest: nothing of it changes but its metadata."""

    status: ClassVar[type[Strategy]] = PodCertificateStatus
    field_labels = ("spec.signerName", "spec.podName", "spec.nodeName")

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(podcertificaterequest_validation.pod_request_errors(obj.get("spec") or {}))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(podcertificaterequest_validation.pod_request_update_errors(new, old))
